"""The options of a run, each declared once: type, default, valid values, written form, effect.

This list determines the options of `rota simulate`, `advise`, `snapshot` and `analyze`; the checks and the
documentation of the arguments of `rota.simulate`; the options on record with a run; the options under which
the policy of a site is fitted; and remarks about options without effect.  Type checkers have to see the
signature of `rota.simulate`, so it is written out there too, and a test holds it to the list.

This file imports nothing heavy: `rota simulate --help` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeVar

from rota.arguments import FILE, FLAG, NUMBER, TEXT, WHOLE, Argument

if TYPE_CHECKING:
    from rota.api.compared_policies import Policies
    from rota.api.seeds import Progress
    from rota.model.cluster import Cluster
    from rota.model.grants import Can
    from rota.reports.window import Window
    from rota.traces.deadlines import DrawnDeadlines
    from rota.traces.elastic import ElasticSizes
    from rota.worlds.simulated.answers import UserAnswers
    from rota.worlds.simulated.costs import Costs
    from rota.worlds.simulated.faults import Fault
    from rota.worlds.simulated.semantics import Semantics
    from rota.worlds.simulated.slowdowns import Slowdowns
    from rota.worlds.simulated.speed import SpeedModel

F = TypeVar("F", bound=Callable[..., Any])
SIMULATE = "simulate"
_EMPTY: tuple[object, ...] = (None, "", 0.0, (), [], {})


@dataclass(frozen=True)
class RunOption:
    """Declaration of one option, without its type."""

    metavar: str
    """How the command line names its value; empty for a flag."""
    help: str
    """Its effect, for `--help` and for Python."""
    in_python: str = ""
    """What only callers of the Python API need to know, as a clause."""
    commands: tuple[str, ...] = (SIMULATE,)
    """The commands that take it; empty for what only Python can hand over."""
    flags: tuple[str, ...] = ()
    """How the command line writes it; `--NAME`, or `--NAME/--no-NAME` where it is on by default, if empty."""
    noun: str = ""
    """What its value is to be, as in "5 is no cluster"; follows from the type if empty."""
    expected: str = ""
    """Values that it accepts, in words; follows from the type if empty."""
    is_recorded: bool = False
    """True if it changes a run: without it the run could not be repeated from its record."""
    is_of_site: bool = False
    """True if it describes the site: the replays that find the site's own policy use it as well."""
    empty_counts: bool = False
    """True if an empty value differs from the default."""
    read_by: str = ""
    """The attribute of `PolicyEffects` that is true if some policy reads the option; empty if all do."""
    unread: str = ""
    """What a policy does that does not read it, as in "fifo gives each job the GPUs that it asks for"."""
    name: str = ""
    type: str = ""
    """The annotation, as it is written."""
    default: Any = None

    @property
    def option(self) -> str:
        """`--observation-noise`; `--no-failures` where the default is on."""
        if self.flags:
            return self.flags[0]
        negated = "no-" if self.default is True else ""
        return f"--{negated}{self.name.replace('_', '-')}"

    @property
    def declarations(self) -> tuple[str, ...]:
        """How the parser of the command line is given it."""
        plain = f"--{self.name.replace('_', '-')}"
        return self.flags or ((f"{plain}/{self.option}",) if self.default is True else (plain,))

    @property
    def argument(self) -> Argument:
        """The check of its value; the annotation of the function says the type."""
        plain = _PLAIN.get(self.type.removesuffix(" | None"))
        if self.noun or plain is None:
            return Argument(self.noun, None, self.expected)
        return plain.or_none() if self.type.endswith(" | None") else plain

    def is_default(self, value: object) -> bool:
        """True if `value` changes nothing."""
        same = (self.default,) if self.empty_counts else (self.default, *_EMPTY)
        return any(type(value) is type(one) and value == one for one in same)


_PLAIN = {"str": TEXT, "bool": FLAG, "int": WHOLE, "float": NUMBER, "str | PathLike[str]": FILE}


def _about(metavar: str, help: str, **facts: Any) -> dict[str, RunOption]:
    return {"option": RunOption(metavar, help, **facts)}


_REPLAY: dict[str, Any] = {"is_recorded": True, "is_of_site": True}
_ADVISE, _SNAPSHOT, _ANALYZE = (SIMULATE, "advise"), (SIMULATE, "advise", "snapshot"), "analyze"

KNOWLEDGE_HELP = (
    "duration=oracle (default), predicted, measured, user or noisy[:SPREAD]; "
    "service history=predicted (default) or measured[:FILE]; "
    "throughput=oracle (default), assumed or measured; "
    "scaling=oracle (default), assumed, predicted or measured; "
    "goodput=oracle (default) or measured; convergence=oracle (default) or predicted; "
    "pairs=oracle (default) or assumed; placement=oracle (default) or assumed; "
    "hosts=oracle (default), assumed or user[:FILE]; servers=oracle (default), assumed or user[:FILE]; "
    "regimes=oracle (default) or assumed; "
    "utilisation=oracle (default) or assumed."
)
"""Entries of the registry of knowledge on simulations; written out, since the registry loads NumPy.  A test
holds it to the registry."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """All options of one call of `rota.simulate`."""

    # fmt: off
    cluster: str | PathLike[str] | Cluster = field(default="auto", metadata=_about(
        "SPEC", "80x8:V100 (nodes x GPUs), several by commas; auto; or FILE.yaml.",
        in_python="`auto` is as large as the trace needs", commands=_SNAPSHOT, noun="cluster",
        expected="a text such as '8x8:V100' (nodes x GPUs) or 'auto', a YAML file, or a Cluster", **_REPLAY,
    ))
    policies: Policies = field(default=("fifo",), metadata=_about(
        "NAME[:key=value,...]", "Policies, joined by commas or given again; see `rota systems`.",
        in_python="Specs and instances of policies too; an instance is called by its `name`, or by its class",
        flags=("--policy",),
    ))
    knowledge: str | Mapping[str, str] | None = field(default=None, metadata=_about(
        "KIND=SOURCE", KNOWLEDGE_HELP,
        in_python="None predicts the durations of a site's own history (`rota.api.site_terms`)",
        commands=_SNAPSHOT, noun="source of knowledge", expected="'duration=user', or the same as a mapping",
        is_recorded=True,
    ))
    semantics: str | Semantics = field(default="exact", metadata=_about(
        "PRESET", "Timing rules of a published simulator.", commands=(SIMULATE, "snapshot"),
        noun="set of timing rules", expected="a name such as 'exact', or Semantics", is_of_site=True,
    ))
    costs: str | Costs | None = field(default=None, metadata=_about(
        "COSTS", "start=20s,restore=30s+1s/gpu; also checkpoint, migrate, checkpoint_every, resize=coddl, "
        "scatter=0.8/1/1.7; or measured[:HOME|:URL] by a running cluster.",
        in_python="None is free, and `site_terms.RESTARTS` for a site's own history; `measured_costs` gives "
        "those of a running cluster",
        commands=_SNAPSHOT, noun="set of costs", expected="such as 'start=20s,restore=30s', or Costs",
        empty_counts=True, **_REPLAY,
    ))
    ideal: bool = field(default=False, metadata=_about(
        "",
        "A site's own history (recorded starts) with true durations and free stops, in place of predicted "
        "durations and checkpoint=10s,restore=60s.",
        **_REPLAY,
    ))
    throughput: str | PathLike[str] | None = field(default=None, metadata=_about(
        "FILE", "Iterations per second by workload, GPU type and GPUs (JSON, CSV).", commands=_ADVISE,
        **_REPLAY,
    ))
    scaling: str | PathLike[str] | None = field(default=None, metadata=_about(
        "FILE[:TYPE]", "Iterations per second by workload and number of GPUs, a table as for --throughput.",
        commands=_ADVISE, **_REPLAY,
    ))
    goodput: str | PathLike[str] | None = field(default=None, metadata=_about(
        "FILE", "Step times and gradient noise by workload (JSON).", commands=_ADVISE, **_REPLAY,
    ))
    regimes: str | PathLike[str] | None = field(default=None, metadata=_about(
        "FILE|shockwave",
        "Batch sizes that jobs go through, by epoch (CSV), or the modes of a Shockwave trace; needs "
        "--throughput.",
        **_REPLAY,
    ))
    step_times: str | PathLike[str] | None = field(default=None, metadata=_about(
        "FILE[,WORKLOAD=BATCH...]",
        "Measured seconds of a step by the placement of its GPUs (CSV), and the largest batch of one GPU "
        "of some workloads; needs --epochs.",
        **_REPLAY,
    ))
    epochs: str | PathLike[str] | None = field(default=None, metadata=_about(
        "FILE", "Progress and gradient noise by epoch and batch size (CSV).", **_REPLAY,
    ))
    slowdowns: str | Slowdowns | None = field(default=None, metadata=_about(
        "RATES", "Rates of jobs that are spread or packed: spread=0.8,spread.vgg19=0.5,colocation=0.9; also "
        "level.rack=0.6, utilisation=0.6, sharing=tgs|antman, hosts=FILE, servers=FILE.",
        noun="set of slowdowns", expected="such as 'spread=0.8'", **_REPLAY,
    ))
    can: str | Mapping[str, Can] | None = field(default=None, metadata=_about(
        "WORDS",
        "What jobs bear without losing their work: suspend, checkpoint, resize, batch, all or nothing, as "
        "in checkpoint+resize,vgg19=suspend; with late, known only once a job has started. All if not "
        "given.",
        commands=_ADVISE, noun="description of what jobs bear", expected="'checkpoint+resize,vgg19=suspend'",
        read_by="stops", unread="stops no running job", **_REPLAY,
    ))
    observation_noise: float = field(default=0.0, metadata=_about(
        "PART", "Seeded relative error of what is observed of running jobs: 0.1.", read_by="observes",
        unread="observes no running job", **_REPLAY,
    ))
    pairs: str | PathLike[str] | None = field(default=None, metadata=_about(
        "FILE", "Rates of workloads that share a GPU, and how busy each keeps a GPU (CSV).", read_by="packs",
        unread="puts no two jobs on one GPU", **_REPLAY,
    ))
    service_history: str | PathLike[str] | None = field(default=None, metadata=_about(
        "FILE", "GPU-seconds of past jobs, one column, with which order=gittins begins (CSV).",
        is_recorded=True,
    ))
    faults: str | Sequence[Fault] = field(default=(), metadata=_about(
        "FAULTS", "Seeded loss of nodes: mtbf=30d,repair=4h (per node).", noun="set of faults",
        expected="'mtbf=30d,repair=4h', or a list of Faults", is_recorded=True,
    ))
    autoscale: str | None = field(default=None, metadata=_about(
        "MIN:MAX[,delay=TIME]",
        "Nodes come and go as the policy asks: 2:16,delay=5m,start=4. For pollux:utility=0.35/0.65.",
        noun="range of nodes", expected="such as '2:16,delay=5m'", is_recorded=True,
    ))
    deadlines: str | DrawnDeadlines | None = field(default=None, metadata=_about(
        "LEAST:MOST", "Draw deadlines: 0.5 to 1.5 times the duration, 0.5:1.5:30% for some.",
        in_python="Jobs that have deadlines keep them", commands=_ADVISE, noun="range of deadlines",
        expected="such as '0.5:1.5'", is_recorded=True,
    ))
    accept: str | UserAnswers | None = field(default=None, metadata=_about(
        "FACTOR[:AFTER]",
        "Users accept a later deadline that is at most FACTOR times as far off as theirs, AFTER a while.",
        in_python="Counted from submission; no user accepts one if None", noun="answer to offers",
        expected="such as '1.5' or '1.5:10m'", is_recorded=True, read_by="offers",
        unread="offers no later deadlines",
    ))
    elastic: str | ElasticSizes | None = field(default=None, metadata=_about(
        "MIN:MAX[:pow2]", "Let jobs of one size run on fewer or more GPUs: 1:64, 1:64:pow2.",
        commands=_ADVISE, noun="range of sizes", expected="such as '1:64:pow2'", is_recorded=True,
        read_by="resizes", unread="gives each job the GPUs that it asks for",
    ))
    failures: bool = field(default=True, metadata=_about(
        "", "Replay the failing attempts of the trace.", **_REPLAY,
    ))
    retries: int | str | None = field(default=None, metadata=_about(
        "N|adaptive", "Retry a failing job at most N times, or by the cause of its failure: adaptive, "
        "adaptive:user=0,unknown=1,infrastructure=5,pause=60s,alike=3,others=3; as often as the trace did "
        "if not given.",
        noun="number of retries", expected="a number, or 'adaptive'", **_REPLAY,
    ))
    limits: str = field(default="ignore", metadata=_about(
        "ignore|enforce",
        "End jobs that have run for the time limit stated at submission, if that is more than their own "
        "record.",
        noun="word about time limits", expected="'ignore' or 'enforce'", **_REPLAY,
    ))
    measure: str | Window | None = field(default=None, metadata=_about(
        "START:END", "Count jobs submitted in 10%:90% or 1d:5d only.", noun="window",
        expected="such as '10%:90%' or '1d:5d'",
    ))
    baseline: str | None = field(default=None, metadata=_about(
        "POLICY", "What changes are against; the site's policy if starts are recorded, or the first.",
    ))
    seed: int = field(default=0, metadata=_about(
        "N", "Seed of everything random.", commands=(SIMULATE, "snapshot"),
    ))
    seeds: int = field(default=1, metadata=_about(
        "N", "Run with N seeds, from --seed on; once where nothing is drawn.",
    ))
    confidence: bool = field(default=False, metadata=_about(
        "", "Intervals beside the numbers, from mixtures of blocks of the same weeks.",
    ))
    site_policy: str | None = field(default=None, metadata=_about(
        "POLICY",
        "What the site itself ran, to calibrate with; what fits recorded starts best if not given.",
    ))
    observed: bool = field(default=True, metadata=_about(
        "", "Show what the trace recorded, and calibrate with it.",
    ))
    format: str | None = field(default=None, metadata=_about(
        "FORMAT", "Format of the trace; detected if not given.", commands=(*_SNAPSHOT, _ANALYZE),
    ))
    workers: int | None = field(default=None, metadata=_about(
        "N", "Processes; as many as cores if not given.", in_python="Small traces take this process alone",
        commands=_ADVISE, flags=("--workers", "-j"), is_of_site=True,
    ))
    speed: SpeedModel | None = field(default=None, metadata=_about(
        "", "A speed model of your own, in place of tables.", commands=(), noun="speed model",
        expected="an instance with the methods total and pace",
    ))
    progress: Progress | None = field(default=None, metadata=_about(
        "", "Called with the name of a run, the jobs that have ended, and all its jobs.", commands=(),
        noun="function", expected="a function",
    ))
    # fmt: on

    def recorded(self) -> dict[str, object]:
        """Options that change the run and differ from the default: `simulate(**recorded)` repeats the run.

        A cluster in words is left out, since the record describes the cluster; objects are given as text.
        """
        given = {
            one.name: getattr(self, one.name)
            for one in OPTIONS.values()
            if one.is_recorded and not one.is_default(getattr(self, one.name))
        }
        if not str(given.get("cluster", "")).endswith((".yaml", ".yml", ".csv")):
            given.pop("cluster", None)
        plain = (str, bool, int, float)
        return {
            name: one if isinstance(one, plain) else str(one) if isinstance(one, PathLike) else repr(one)
            for name, one in given.items()
        }


OPTIONS: Mapping[str, RunOption] = {
    one.name: replace(one.metadata["option"], name=one.name, type=str(one.type), default=one.default)
    for one in fields(RunOptions)
}
"""By name, in the order of `rota simulate --help`."""
ARGUMENTS = {name: one.argument for name, one in OPTIONS.items() if name != "policies"}
"""The checks of their values; `chosen_policies` checks policies."""
OF_SITE = tuple(name for name, one in OPTIONS.items() if one.is_of_site)


def documented(function: F) -> F:
    """`function`, with its options added to its docstring, a line for each."""
    lines = []
    for name, one in OPTIONS.items():
        text = ". ".join(filter(None, (one.help.removesuffix("."), one.in_python)))
        lines += wrap(text, 106, initial_indent=f"    {name:<18} ", subsequent_indent=" " * 23)
    function.__doc__ = "\n".join([(function.__doc__ or "").rstrip(), "", *lines, "    "])
    return function

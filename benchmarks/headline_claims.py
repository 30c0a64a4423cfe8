"""What papers claim: comparisons that public data can show (`headlines.py` runs them), and what it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ITP = "$DATA/data/itp_elasticflow/raw/cluster{}.csv.gz"
REFERENCE = "$DATA/reference/{}"
GAVEL_RATES = "--throughput $DATA/data/gavel/simulation_throughputs.json.gz"
RETRIES = "philly-retries"
"""The headline that compares two worlds under one policy."""


@dataclass(frozen=True)
class Setting:
    """One trace on one cluster, as words of `rota simulate`."""

    name: str
    command: str
    before: str = ""
    """A `rota trace generate` that makes the trace, if it is not a file."""


@dataclass(frozen=True)
class Headline:
    """A claim that one policy is better than another, by a factor of a mean."""

    id: str
    paper: str
    claim: str
    better: str
    worse: str
    factor: float
    """The claimed factor; 1 if the paper gives no number, or one of another comparison."""
    settings: Sequence[Setting]
    near: bool = False
    """The claim is to be nearly as good."""
    metric: str = "mean_jct_s"
    note: str = ""
    also: Sequence[str] = field(default_factory=tuple)
    """Further policies, printed beside the two."""

    @property
    def policies(self) -> list[str]:
        return [self.worse, self.better, *self.also]


METRICS = {
    "mean_jct_s": "mean time to completion",
    "mean_waiting_s": "mean waiting time",
    "mean_delay_s": "mean wait until the first start",
    "makespan_s": "time until all is done",
    "granted_gpu_s": "GPU time held",
}


def generated(jobs: int, load: float, cluster: str, seed: int, options: str = "") -> Setting:
    """A generated trace of Philly's kind."""
    return Setting(
        f"generated, {jobs:,} jobs at load {load:g} on {cluster}, seed {seed}",
        f"jobs.csv --cluster {cluster} {options}".strip(),
        f"trace generate --jobs {jobs} --load {load:g} --cluster {cluster} --seed {seed} --out jobs.csv",
    )


def itp(number: str, cluster: str, options: str = "") -> Setting:
    return Setting(
        f"ITP cluster {number} on {cluster}", f"{ITP.format(number)} --cluster {cluster} {options}".strip()
    )


LONG = (itp("06", "16x8"), itp("02", "12x8"), itp("01", "4x8"), generated(4000, 0.9, "8x8", 1))
"""Weeks of jobs on clusters that they nearly fill."""
PAST = (
    generated(6000, 0.95, "8x8", 1),
    generated(6000, 0.95, "8x8", 2),
    generated(6000, 0.95, "16x8", 3),
)
"""Traces whose jobs recur in groups: no public list has both groups and sizes."""
_MIXED = "--cluster {0}x1:v100,{0}x1:p100,{0}x1:k80 " + GAVEL_RATES
GAVEL = (
    Setting(
        "Gavel's generator, 300 jobs of one GPU, on 18 GPUs of three types",
        REFERENCE.format("gavel-pollux-sia/inputs/gavel_gen_single_300.csv.gz ") + _MIXED.format(6),
    ),
    Setting(
        "Gavel's 96 jobs for its physical cluster, on 18 GPUs of three types",
        REFERENCE.format("gavel-pollux-sia/inputs/gavel_physical_las.csv.gz ") + _MIXED.format(6),
    ),
)
LUCID = (
    Setting(
        "a day of ITP with Lucid's profiles on 32x8, one and a half times what fits",
        REFERENCE.format(
            "tiresias-elasticflow-lucid/workloads/lucid_noncommercial/lucid_itp1day_jobs.csv.gz "
        )
        + "--cluster 32x8 --pairs pairs.csv",
    ),
)

HEADLINES = (
    Headline(
        "tiresias-fifo", "Tiresias, NSDI 2019",
        "mean completion 5.5 times shorter than under the cluster's FIFO scheduler on the testbed, 2.4 times "
        "in the trace simulation",
        "tiresias", "fifo", 2.4, LONG, also=("tiresias:order=gittins", "fifo:skip=yes"),
        note="`fifo` waits for the head of the queue; `fifo:skip=yes` passes it and is a stronger baseline.",
    ),
    Headline(
        "tiresias-gandiva", "Tiresias, NSDI 2019",
        "mean completion 2 times shorter than under Gandiva in the trace simulation",
        "tiresias", "gandiva", 2.0, LONG[:2], also=("tiresias:order=gittins",),
        note="Tiresias' simulator has a simplified Gandiva; ours follows the Gandiva paper, without packing.",
    ),
    Headline(
        "tiresias-srtf", "Tiresias, NSDI 2019",
        "the Gittins index, without durations, is nearly as good as SRTF, which knows them",
        "tiresias:order=gittins", "srtf", 1.0, LONG, near=True, also=("tiresias",),
        note="The index learns from jobs that have ended in the same run.",
    ),
    Headline(
        "gandiva-feedback", "Gandiva, OSDI 2018",
        "under overload all jobs get early feedback: they start at once and take turns",
        "gandiva", "fifo:skip=yes", 1.0, LUCID, metric="mean_delay_s", also=("gandiva:packing=no",),
    ),
    Headline(
        "gandiva-packing", "Gandiva, OSDI 2018",
        "packing jobs that leave a GPU idle uses 26 % more of it (180 GPUs, hyper-parameter searches)",
        "gandiva", "gandiva:packing=no", 1.26, LUCID, metric="makespan_s", also=("fifo:skip=yes",),
        note="Pairs run as measured by Lucid's authors.  The claim is about utilisation under an endless "
        "queue; for a finite one the time until all is done measures the same.",
    ),
    Headline(
        "pai-sjf", "PAI, NSDI 2022",
        "shortest job first by predicted durations cuts mean completion by 63 to 77 % (2.7 to 4.3 times)",
        "pai", "pai:estimate=none", 2.7, PAST, also=("pai:estimate=user", "pai:estimate=known"),
    ),
    Headline(
        "pai-order", "PAI, NSDI 2022",
        "predicting by group and GPUs makes mean completion 1.05 times shorter than predicting by user",
        "pai", "pai:estimate=user", 1.05, PAST, also=("pai:estimate=group",),
    ),
    Headline(
        "easy", "EASY backfill: Lifka, JSSPP 1995",
        "jobs may pass the head of the queue if they do not delay it: shorter waits than strict FIFO",
        "fifo:backfill=easy", "fifo", 1.0,
        (generated(4000, 0.8, "8x8", 1, "--knowledge duration=user"),
         generated(4000, 0.9, "16x8", 2, "--knowledge duration=user"),
         itp("06", "16x8")),
        metric="mean_waiting_s", also=("fifo:skip=yes",),
        note="For generated jobs the policy knows time limits only; for ITP it knows exact durations.",
    ),
    Headline(
        "gavel-types", "Gavel, OSDI 2020",
        "with the speed of each job on each GPU type known, mean completion is up to 3.5 times shorter than "
        "under agnostic max-min fairness",
        "gavel", "gavel:aware=no", 3.5, GAVEL,
    ),
    Headline(
        "gavel-makespan", "Gavel, OSDI 2020",
        "the aware makespan objective ends up to 2.5 times sooner than agnostic FIFO",
        "gavel:objective=makespan", "gavel:objective=fifo,aware=no", 2.5,
        (Setting("Gavel's 100 jobs at once, on 18 GPUs of three types", REFERENCE.format(
            "gavel-pollux-sia/inputs/gavel_physical_makespan.csv.gz ") + _MIXED.format(6)),),
        metric="makespan_s",
    ),
    Headline(
        "drf-slots", "DRF, NSDI 2011",
        "jobs end sooner with shares of dominant resources than with equal slots, which waste the surplus of "
        "each slot",
        "drf", "drf:share=slots", 1.0,
        (Setting("openb's pods on a third of its nodes", "pods.csv --cluster nodes.yaml"),),
        note="Pods have no tenants; here the resource that a pod needs most of stands for its tenant (ours).",
    ),
    Headline(
        RETRIES, "Philly study, USENIX ATC 2019",
        "retries that depend on the reason of a failure waste less than equal retries for all failures",
        "adaptive", "blind", 1.0,
        (generated(9600, 0.7, "64x8", 1), generated(9600, 0.7, "64x8", 2)),
        metric="granted_gpu_s",
        note="Both under `philly`, with `--retries adaptive` and `--retries 3`.",
    ),
)  # fmt: skip

CANNOT = (
    (
        "Tiresias: 5.5 times on the testbed",
        "60 GPUs with InfiniBand and the authors' 480 jobs; the public list of the testbed has 60, whose "
        "simulation is in the table of [fidelity](fidelity.md).",
    ),
    (
        "Gandiva: hyper-parameter search 10 times faster to a good configuration",
        "No public trace says how well each configuration learns, so bad ones cannot be stopped early.",
    ),
    (
        "Philly: 80 % of delays are fragmentation",
        "It depends on the quotas of the virtual clusters, which are not public; [philly](philly.md) has "
        "our result.",
    ),
    (
        "PAI: sharing halves the GPUs that are needed",
        "The tables with tasks and groups are not among the public files at hand; gangs of fractions are "
        "simulated ([pai](systems/pai.md)), but their mix is unknown.",
    ),
    (
        "PAI: reserving and packing cut waiting by 45 %",
        "The same, and it depends on which jobs ask for a V100.",
    ),
    (
        "Gavel: cost 1.4 times lower with deadlines met",
        "Prices are up to the reader, and the workload with deadlines is not in the repository.",
    ),
    (
        "AFS: 1.9 to 3.1 times over Tiresias",
        "The jobs of the testbed are not public; the cost of a resize decides the result, and no measurement "
        "of it is published.",
    ),
)
"""Claims that the data cannot show, and why."""

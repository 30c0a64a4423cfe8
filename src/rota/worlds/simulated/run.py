"""Replay one trace under one policy: builds world, providers and loop, runs them, returns the record."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from rota import __version__
from rota.errors import InputError, PolicyError
from rota.knowledge.needs import Knowledge, Provenance, Provider
from rota.model.cluster import Cluster
from rota.model.grants import Can
from rota.model.record import Record
from rota.model.trace import Trace
from rota.scheduler.loop import Loop
from rota.scheduler.policy import Policy, PolicySpec, called, parse_policy, whole_policy
from rota.worlds.simulated.abilities import LATE
from rota.worlds.simulated.answers import UserAnswers
from rota.worlds.simulated.autoscale import Autoscale, ScaledWorld
from rota.worlds.simulated.checks import recount
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.headway import Headway
from rota.worlds.simulated.kinds import world_of
from rota.worlds.simulated.limits import LimitedWorld, TimeLimits
from rota.worlds.simulated.measured_costs import MeasuredCosts
from rota.worlds.simulated.providers import make_providers
from rota.worlds.simulated.record_tables import make_record
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.retries import Retries
from rota.worlds.simulated.semantics import Charge, Semantics
from rota.worlds.simulated.speed import SpeedModel
from rota.worlds.simulated.without import went_without
from rota.worlds.simulated.world import SimulatedWorld


@dataclass(frozen=True)
class Setting:
    """Everything about a run besides trace, cluster and policy."""

    semantics: Semantics = field(default_factory=Semantics)
    costs: Costs = field(default_factory=Costs)
    speed: SpeedModel | None = None
    """How fast jobs work; None replays the durations of the trace."""
    knowledge: Mapping[str, str] = field(default_factory=dict)
    """Source of each kind of knowledge, for instance duration -> user; the truth where not stated."""
    providers: Sequence[Provider] = ()
    """Providers given as objects; they take precedence over the sources in `knowledge`."""
    faults: Sequence[Fault] = ()
    retries: Retries | int | None = None
    """When a failing job is given up, or after how many failures; None tries as often as the trace did."""
    observation_noise: float = 0.0
    """Relative error of what providers see of running jobs."""
    can: Mapping[str, Can] = field(default_factory=dict)
    """What jobs can do without losing work, by workload, `*` for all others; everything where not stated."""
    autoscale: Autoscale | None = None
    """How far the cluster may grow and shrink; None: its size is fixed."""
    limits: TimeLimits = TimeLimits.IGNORE
    """Whether jobs end that have run for as long as was stated at submission."""
    answers: UserAnswers = field(default_factory=UserAnswers)
    """How users answer a later deadline; by default no user takes one."""
    seed: int = 0
    until_s: float = float("inf")
    asked: Mapping[str, object] = field(default_factory=dict)
    """Options as they were given, for the record: the run cannot be repeated without them."""


Watch = Callable[[int], None]
"""Called now and then with the number of jobs that have ended."""
WATCH_EVERY = 2048
"""Events between two calls of a watch."""


def run(
    policy: str | PolicySpec | Policy,
    trace: Trace,
    cluster: Cluster,
    setting: Setting | None = None,
    watch: Watch | None = None,
) -> Record:
    """Replay `trace` on `cluster` under `policy` (a name such as `fifo:skip=yes`, or an instance)."""
    setting = setting or Setting()
    spec = parse_policy(policy) if isinstance(policy, str) else policy
    instance = spec.make() if isinstance(spec, PolicySpec) else spec
    name = called(spec)
    loop, recorder = prepare(instance, trace, cluster, setting)
    with _no_garbage_collection(), _named(name):
        began = time.process_time()
        _drive(loop, recorder, setting.until_s, watch)
        engine_seconds = time.process_time() - began - recorder.book.cpu_s
    loop.close()
    recount(loop.state, recorder)
    return make_record(name, loop, recorder, trace, engine_seconds, provenance(name, loop, trace, setting))


def _drive(loop: Loop, recorder: RunRecorder, until_s: float, watch: Watch | None) -> None:
    """Run the loop to its end, reporting to `watch`.  Raises PolicyError if there is no progress."""
    headway = Headway(loop)
    while loop.run(until_s, WATCH_EVERY):
        headway.look(len(recorder.ends))
        if watch is not None:
            watch(len(recorder.ends))


def prepare(policy: Policy, trace: Trace, cluster: Cluster, setting: Setting) -> tuple[Loop, RunRecorder]:
    """The loop, ready to run, and what listens to it."""
    policy = whole_policy(policy, type(policy).__name__)
    fresh: Callable[[], SpeedModel] | None = getattr(setting.speed, "fresh", None)
    speed = setting.speed if fresh is None else fresh()  # what it remembers is that of one run
    world = _world_of(setting)(
        trace,
        cluster,
        speed=speed,
        costs=setting.costs,
        semantics=setting.semantics,
        faults=setting.faults,
        retries=setting.retries,
        observation_noise=setting.observation_noise,
        can=setting.can,
        answers=setting.answers,
        seed=setting.seed,
    )
    recorder = RunRecorder(world.progress.done if _is_elastic(trace, speed) else None)
    providers = {p.kind: p for p in setting.providers}
    for kind in policy.needs:
        if kind not in providers:
            providers.update(make_providers({kind}, setting.knowledge, trace, cluster, speed, setting.seed))
    for kind in map(Knowledge, setting.knowledge):
        if kind not in providers and ":" in setting.knowledge[kind]:  # a file or a number that nothing reads
            make_providers({kind}, setting.knowledge, trace, cluster, speed, setting.seed)
    return Loop(world, policy, recorder, providers=providers, seed=setting.seed), recorder


def _world_of(setting: Setting) -> Callable[..., SimulatedWorld]:
    if setting.limits is TimeLimits.ENFORCE:
        if setting.autoscale is not None or world_of(setting.semantics) is not SimulatedWorld:
            other = "--semantics" if setting.autoscale is None else "--autoscale"
            raise InputError.at(
                "limits are enforced in the world of events", field="--limits", expected=f"no {other} with it"
            )
        return LimitedWorld
    if setting.autoscale is None:
        world = world_of(setting.semantics)
        if world is not SimulatedWorld and any(can & LATE for can in setting.can.values()):
            raise InputError.at(
                "late programs are for the world of events", field="--can", expected="no --semantics with it"
            )
        return world
    return partial(ScaledWorld, autoscale=setting.autoscale)


def _is_elastic(trace: Trace, speed: SpeedModel | None) -> bool:
    """Whether jobs may work at other rates than one, which the record then has to show."""
    jobs = trace.jobs
    return speed is not None or bool((jobs.gpus_min != jobs.gpus_max).any())


def provenance(name: str, loop: Loop, trace: Trace, setting: Setting) -> dict[str, object]:
    """Enough to repeat the run, and to judge it."""
    return {
        "rota": __version__,
        "policy": name,
        "trace": trace.source,
        "format": trace.format,
        "jobs": len(trace),
        **trace.calendar,
        "cluster": loop.state.cluster.describe(),
        "knowledge": {kind.value: p.provenance.value for kind, p in sorted(loop.providers.items())},
        "semantics": setting.semantics.name,
        "costs": "none" if setting.costs.free else repr(setting.costs),
        **({"stops": setting.costs.stops} if setting.semantics.charge is Charge.COSTS else {}),
        **({"without": without} if (without := _without(loop, trace)) else {}),
        "draws": _draws(loop, setting),
        **({"costs_provenance": "measured"} if isinstance(setting.costs, MeasuredCosts) else {}),
        "speed": type(loop.world.speed).__name__ if isinstance(loop.world, SimulatedWorld) else "",
        **({} if setting.autoscale is None else {"autoscale": str(setting.autoscale)}),
        **({} if setting.limits is TimeLimits.IGNORE else {"limits": setting.limits.value}),
        **({} if setting.answers == UserAnswers() else {"accept": str(setting.answers)}),
        **({"options": dict(setting.asked)} if setting.asked else {}),
        "seed": setting.seed,
    }


def _draws(loop: Loop, setting: Setting) -> bool:
    """True if random numbers were drawn, so that another seed may differ; faults are drawn elsewhere."""
    is_noisy = any(provider.provenance is Provenance.NOISY for provider in loop.providers.values())
    return loop.seed.is_asked or is_noisy or setting.observation_noise > 0.0 or bool(setting.costs.scatter)


def _without(loop: Loop, trace: Trace) -> dict[str, str]:
    speed = loop.world.speed if isinstance(loop.world, SimulatedWorld) else None
    return {} if speed is None else went_without(loop.policy, loop.providers, trace.jobs, speed)


@contextmanager
def _named(policy: str) -> Iterator[None]:
    """Adds to an error, where several policies run, which one it is about."""
    try:
        yield
    except PolicyError as error:
        error.args = (f"policy {policy}: {error}",)
        raise


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Switch garbage collection off: nothing in a run forms cycles, and the search takes 10 % of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

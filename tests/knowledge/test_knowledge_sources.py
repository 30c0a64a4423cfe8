"""Providers are registered: chosen by name, refused with a sentence, added from outside."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from play import play, trace_of
from rota.api.run_options import KNOWLEDGE_HELP
from rota.api.run_setup import make_setting
from rota.cli.shell import LIVE_KNOWLEDGE_HELP
from rota.errors import InputError
from rota.knowledge import registry
from rota.knowledge.given import Provides
from rota.knowledge.needs import FORMS, Knowledge, Provenance
from rota.knowledge.registry import (
    Setup,
    Where,
    all_sources,
    help_text,
    kinds,
    make_provider,
    parse_sources,
    provides,
    sources,
)
from rota.model.cluster import parse_cluster

TRACE = trace_of("A 1x10 B 2x20@5")
CLUSTER = parse_cluster("1x4")
SIMULATED = Setup(TRACE.jobs, CLUSTER, TRACE.truth, origin="jobs.csv")
LIVE = Setup(TRACE.jobs, CLUSTER)

DEFAULTS = [
    # kind                      simulated             live
    (Knowledge.DURATION,        Provenance.ORACLE,    Provenance.USER),
    (Knowledge.SERVICE_HISTORY, Provenance.PREDICTED, Provenance.PREDICTED),
    (Knowledge.THROUGHPUT,      Provenance.ASSUMED,   Provenance.MEASURED),
    (Knowledge.SCALING,         Provenance.ASSUMED,   Provenance.MEASURED),
    (Knowledge.SKEW,            Provenance.MEASURED,  None),
    (Knowledge.UTILISATION,     Provenance.ASSUMED,   Provenance.MEASURED),
    (Knowledge.GOODPUT,         Provenance.MEASURED,  Provenance.MEASURED),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "simulated", "live"), DEFAULTS)
def test_who_tells_unless_somebody_is_chosen(
    kind: Knowledge, simulated: Provenance | None, live: Provenance | None
) -> None:
    """In a world whose speed model says nothing of itself."""
    for setup, where, provenance in ((SIMULATED, Where.SIMULATED, simulated), (LIVE, Where.LIVE, live)):
        provider = make_provider(kind, setup, where)
        assert (provider.provenance if provider else None) is provenance


def test_every_kind_has_a_form_and_a_source() -> None:
    assert set(FORMS) == set(Knowledge) == {source.kind for source, _ in all_sources()}
    assert kinds(Where.LIVE) < kinds(Where.SIMULATED)


def test_a_default_is_no_oracle() -> None:
    """Under a table of throughputs nobody knows how jobs scale: it is an assumption, and says so."""
    for setup, where in ((SIMULATED, Where.SIMULATED), (LIVE, Where.LIVE)):
        for source in sources(where):
            provider = make_provider(source.kind, setup, where)
            truth = provider is not None and provider.provenance is Provenance.ORACLE
            assert not truth or source.kind in (Knowledge.DURATION, Knowledge.CONVERGENCE)


WRONG = [
    # chosen                      where            message
    ("weather=user",              Where.SIMULATED, "nobody provides 'weather' in a simulated world"),
    ("skew=measured",             Where.LIVE,      "nobody provides 'skew' in a live world"),
    ("duration=magic",            Where.SIMULATED, "expected oracle, predicted, measured, user or noisy"),
    ("duration=oracle",           Where.LIVE,      "expected user, measured or predicted"),
    ("duration",                  Where.LIVE,      "'duration' names no source"),
    ("duration=user,duration=user", Where.LIVE,    "sets 'duration' twice"),
    ("duration=user:x.csv",       Where.LIVE,      "takes no 'x.csv'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "where", "message"), WRONG)
def test_what_cannot_be_chosen(text: str, where: Where, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_sources(text, where)


def test_what_does_not_stand_says_what_it_needs() -> None:
    with pytest.raises(InputError, match="goodput=oracle does not stand here; expected a goodput"):
        make_provider(Knowledge.GOODPUT, SIMULATED, Where.SIMULATED, "oracle")
    with pytest.raises(InputError, match=r"jobs.csv: no job states a time limit"):
        make_provider(Knowledge.DURATION, SIMULATED, Where.SIMULATED, "user")


def test_help_names_the_choices() -> None:
    assert help_text(Where.SIMULATED) == KNOWLEDGE_HELP
    assert "duration=oracle (default), predicted, measured, user or noisy" in KNOWLEDGE_HELP
    assert help_text(Where.LIVE) == LIVE_KNOWLEDGE_HELP
    assert LIVE_KNOWLEDGE_HELP.startswith("duration=user (default), measured or predicted")


@pytest.fixture
def clean() -> Iterator[None]:
    """What a test registers is forgotten."""
    before = {key: list(same) for key, same in registry._SOURCES.items()}
    registry._load.cache_clear()
    yield
    registry._load.cache_clear()
    registry._SOURCES.clear()
    registry._SOURCES.update(before)


def half(setup: Setup) -> Provides:
    """Somebody else's provider."""
    return Provides(Knowledge.UTILISATION, Provenance.PREDICTED, np.full(len(setup.jobs), 0.5))


@pytest.mark.usefixtures("clean")
def test_a_provider_from_outside_is_chosen_by_name() -> None:
    """By a plain call; a second one of the same name is refused."""
    provides(Knowledge.UTILISATION, Provenance.PREDICTED, "half of it")(half)
    setting = make_setting(knowledge="utilisation=predicted")
    record = play("gandiva", TRACE, "1x4", setting)
    assert record.provenance["knowledge"] == {"utilisation": "predicted"}
    with pytest.raises(InputError, match="two providers are named utilisation=predicted"):
        provides(Knowledge.UTILISATION, Provenance.PREDICTED, "again", where={Where.LIVE})(half)


@pytest.mark.usefixtures("clean")
def test_installed_packages_add_theirs(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """By an entry point that loads a module."""
    (tmp_path / "half_used.py").write_text(
        "from rota.knowledge.given import Provides\n"
        "from rota.knowledge.needs import Knowledge, Provenance\n"
        "from rota.knowledge.registry import provides\n"
        "@provides(Knowledge.SKEW, Provenance.USER, 'as users say')\n"
        "def skew(setup):\n"
        "    return Provides(Knowledge.SKEW, Provenance.USER, setup.jobs.gpus * 0.5)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint("half", "half_used", "rota.knowledge")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert parse_sources("skew=user", Where.LIVE) == {"skew": "user"}


def test_noise_is_drawn_once_for_a_job_and_by_the_seed() -> None:
    trace = trace_of(" ".join(f"J{i} 1x{10 + i}@{i}" for i in range(400)))
    setups = [Setup(trace.jobs, CLUSTER, trace.truth, seed=seed) for seed in (1, 1, 2)]
    told = [make_provider(Knowledge.DURATION, setup, Where.SIMULATED, "noisy:0.3") for setup in setups]
    first, again, other = (np.log(one.known() / trace.truth.duration_s) for one in told)
    assert first.std() == pytest.approx(0.3, rel=0.1)
    assert abs(np.median(first)) < 0.05
    assert (first == again).all()
    assert not (first == other).any()
    assert play("srtf", trace, "1x4", make_setting(knowledge="duration=noisy")).provenance["knowledge"] == {
        "duration": "noisy"
    }
    with pytest.raises(InputError, match="duration=noisy:wide has no spread; expected 0 or more"):
        make_provider(Knowledge.DURATION, SIMULATED, Where.SIMULATED, "noisy:wide")

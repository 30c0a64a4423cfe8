"""Settings: one precedence for all kinds, and one sentence for each wrong value."""

from __future__ import annotations

import inspect
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.cli import service
from rota.errors import InputError
from rota.model.tenants import CellQuota
from rota.server.caps import caps_of
from rota.server.config import (
    DURATIONS,
    ONLY_IN_FILE,
    Config,
    back_off_of,
    choose,
    keep_of,
    knowledge_of,
    tenants_of,
)
from rota.server.hooks.autoscale_setting import autoscale_of
from rota.server.hooks.notices import targets_of
from rota.wire.sync import Exit
from rota.worlds.live.endings import RULES, Cause, judge, rules_of

KINDS: list[tuple[str, Any, str, Any, Any, Any]] = [
    # setting, flag, environment, file: as people write them; then what each becomes
    ("name", "a", "b", "c", ("a", "b", "c"), "rota"),
    ("port", 1, "2", 3, (1, 2, 3), 0),
    ("min_run", "1s", "2m", "3h", (1.0, 120.0, 10800.0), 60.0),
    ("keep_events", "1h", "forever", 0, (3600.0, 0.0, 0.0), 90 * 86400.0),
    ("idle_after", "1h", "never", 0, (3600.0, 0.0, 0.0), 0.0),
    ("suspend_memory_gib", 1.5, "2", 3, (1.5, 2.0, 3.0), 0.0),
    ("policy_memory_gib", 1.5, "2", 3, (1.5, 2.0, 3.0), 0.0),
    ("metrics_open", "yes", "on", True, (True, True, True), False),
]


def write(home: Path, **settings: Any) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump(settings))


def sentence(home: Path, flags: dict[str, Any], environment: dict[str, str] | None = None) -> str:
    """What is said of a wrong setting; one line."""
    with pytest.raises(InputError) as caught:
        choose(home, flags, environment or {})
    said = str(caught.value)
    assert "\n" not in said
    assert caught.value.exit_code == 2
    return said


@pytest.mark.parametrize(("name", "flag", "variable", "file", "values", "default"), KINDS)
def test_precedence(
    tmp_path: Path, name: str, flag: Any, variable: str, file: Any, values: tuple[Any, ...], default: Any
) -> None:
    """Flag, then environment, then file, then default."""
    environment = {f"ROTA_{name.upper()}": variable}
    assert getattr(choose(tmp_path, {}, {}).config, name) == default
    assert choose(tmp_path, {}, {}).source[name] == "default"
    write(tmp_path, **{name: file})
    chosen = choose(tmp_path, {}, {})
    assert (getattr(chosen.config, name), chosen.source[name]) == (values[2], str(tmp_path / "config.yaml"))
    chosen = choose(tmp_path, {}, environment)
    assert (getattr(chosen.config, name), chosen.source[name]) == (values[1], f"ROTA_{name.upper()}")
    chosen = choose(tmp_path, {name: flag}, environment)
    assert (getattr(chosen.config, name), chosen.source[name]) == (values[0], "flag")
    assert getattr(choose(tmp_path, {name: None}, {}).config, name) == values[2], "None is not given"


def test_every_setting_is_shown_with_its_source(tmp_path: Path) -> None:
    write(tmp_path, tenants={"vision": {"quota": 4}}, database_url="postgresql://ann:secret@db/rota")
    lines = choose(tmp_path, {"deadline": "90s"}, {"ROTA_METRICS_OPEN": "1"}).lines()
    assert {name for name, _, _ in lines} == {one.name for one in fields(Config)}
    assert lines[-1][0] == "tenants", "what has entries comes last"
    shown = {name: (value, source) for name, value, source in lines}
    assert shown["deadline"] == ("1m30s", "flag")
    assert (shown["keep_files"][0], shown["keep_keys"][0]) == ("30d", "1d")
    assert (shown["idle_after"][0], shown["idle_action"][0]) == ("never", "tell")
    assert shown["metrics_open"] == ("yes", "ROTA_METRICS_OPEN")
    assert "secret" not in str(lines)
    assert shown["database_url"][0] == "postgresql://…@db/rota"


def test_what_becomes_of_idle_jobs(tmp_path: Path) -> None:
    write(tmp_path, idle_action="kill")
    assert sentence(tmp_path, {}).endswith("idle_action: 'kill' is nothing to do; expected tell or suspend")


def test_the_file_of_the_manual_is_accepted(tmp_path: Path) -> None:
    """As it stands in docs/live.md, `on: [failure]` included, which YAML would read as `true: [failure]`."""
    page = (Path(__file__).parents[2] / "docs" / "live.md").read_text(encoding="utf-8")
    example = page.partition("## Configuration")[2].partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "config.yaml").write_text(example, encoding="utf-8")
    config = choose(tmp_path, {}, {}).config
    hook, page_oncall = targets_of(config.notify)
    assert (hook.on, hook.tenant) == (frozenset({"failure", "preemption"}), "vision")
    assert (page_oncall.on, page_oncall.every_s) == (frozenset({"failure"}), 60.0)
    assert caps_of(config.caps).tenants["vision"].priority == 500
    assert autoscale_of(config.autoscale) is not None
    assert rules_of(config.failures)


@pytest.mark.parametrize("number", [-1, 1])
def test_failures_are_alike_from_two_on(tmp_path: Path, number: int) -> None:
    write(tmp_path, retries_alike=number)
    said = f"{number} is no number of same failures; expected 2 or more, or 0 for never"
    assert sentence(tmp_path, {}).endswith(said)


def test_another_file(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("policy: srtf\n")
    write(tmp_path, policy="las")
    assert choose(tmp_path, {}, {}, other).config.policy == "srtf"
    with pytest.raises(InputError, match=r"nowhere\.yaml: there is no such file"):
        choose(tmp_path, {}, {}, tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("policy: [", "is not YAML"),
        ("- policy", "is not a list of settings"),
        ("just words", "is not a list of settings"),
        ("polcy: fifo", "config.yaml: there is no setting 'polcy'; did you mean 'policy'?"),
        ("1: 2", "there is no setting '1'; there are name, policy,"),
        ("\0", "is not YAML"),
    ],
)
def test_files_that_make_no_sense(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert said in sentence(tmp_path, {})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"\xff\xfe\xff")
    assert "cannot be read" in sentence(tmp_path, {})
    (tmp_path / "config.yaml").unlink()
    (tmp_path / "config.yaml").mkdir()
    assert "cannot be read" in sentence(tmp_path, {})


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("# nothing yet\n")
    assert choose(tmp_path, {}, {}).config == Config()


WRONG: list[tuple[str, Any, str]] = [
    ("port", "eighty", "expected a whole number"),
    ("port", 80.5, "expected a whole number"),
    ("port", True, "expected a whole number"),
    ("port", 70000, "70000 is no port"),
    ("port", -1, "-1 is no port"),
    ("name", ["a"], "expected text"),
    ("name", True, "expected text"),
    ("min_run", 30, "expected a unit"),
    ("min_run", "soon", "'soon' is not a duration"),
    ("min_run", -5.0, "is not a duration"),
    ("deadline", math.nan, "is not a duration"),
    ("deadline", math.inf, "is not a duration"),
    ("lost_after", "500ms", "is too short"),
    ("deadline", "0s", ": leaves no time to decide"),
    ("keep_files", 30, "expected a unit"),
    ("keep_files", "always", "'always' is not a duration"),
    ("keep_files", "400d", "365d is shorter than keep_files (400d)"),
    ("keep_checkpoints", "forever", "365d is shorter than keep_checkpoints (forever)"),
    ("keep_history", "10d", "10d is shorter than keep_files (30d)"),
    ("suspend_memory_gib", "much", "expected a number"),
    ("policy_memory_gib", -1, "expected a number, 0 or more"),
    (
        "policy_memory_gib",
        0.1,
        "0.1 is less than a policy's process takes without its policy; expected 0.25 or more, ",
    ),
    ("suspend_memory_gib", -1, "expected a number, 0 or more"),
    ("suspend_memory_gib", math.nan, "expected a number, 0 or more"),
    ("metrics_open", "perhaps", "expected yes or no"),
    ("log_level", "loud", "'loud' is no level"),
    ("knowledge", "duration", "names no source"),
    ("knowledge", "duration=oracle", "'oracle' is no source of it"),
    ("knowledge", "hosts=user:no.csv", "no.csv: cannot be read (No such file or directory)"),
    ("knowledge", "weather=user", "nobody provides 'weather' in a live world"),
]


@pytest.mark.parametrize(("name", "value", "said"), WRONG)
def test_wrong_values_in_the_file(tmp_path: Path, name: str, value: Any, said: str) -> None:
    write(tmp_path, **{name: value})
    assert said in sentence(tmp_path, {})
    assert "column" not in sentence(tmp_path, {})


@pytest.mark.parametrize(("name", "value", "said"), [row for row in WRONG if isinstance(row[1], str)])
def test_wrong_values_in_flags_and_environment_name_their_place(
    tmp_path: Path, name: str, value: str, said: str
) -> None:
    assert said in sentence(tmp_path, {name: value})
    assert said in sentence(tmp_path, {}, {f"ROTA_{name.upper()}": value})
    if name in DURATIONS and "duration" in said:
        assert sentence(tmp_path, {name: value}).startswith(f"--{name.replace('_', '-')}")
        variable = f"ROTA_{name.upper()}"
        assert sentence(tmp_path, {}, {variable: value}).startswith((f"{variable}: ", "--"))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"port": 99999}, "port: 99999 is no port; expected 0 to 65535"),
        ({"lost_after": "100ms"}, "lost_after: is too short; expected 1s or more"),
        ({"retries_alike": 1}, "retries_alike: 1 is no number of same failures; expected 2 or more"),
        ({"idle_action": "kill"}, "idle_action: 'kill' is nothing to do; expected tell or suspend"),
        ({"autoscale": {"command": ["add"]}}, "autoscale: it does not say `max`; expected the most nodes"),
        ({"notify": 5}, "notify: 5 is no list"),
        ({"prices": [1]}, "prices: is no list of prices"),
        ({"caps": [1]}, "caps"),
        ({"failures": 5}, "failures"),
        ({"tenants": 5}, "tenants"),
        ({"layout": 5}, "layout"),
    ],
)
def test_what_is_wrong_in_the_file_names_it(tmp_path: Path, written: dict[str, Any], said: str) -> None:
    write(tmp_path, **written)
    told = sentence(tmp_path, {})
    assert told.startswith(f"{tmp_path / 'config.yaml'}: {said}")
    assert told.count("config.yaml") == 1


@pytest.mark.parametrize(
    ("flags", "environment", "said"),
    [
        ({"port": 70000}, {}, "--port: 70000 is no port; expected 0 to 65535"),
        ({"idle_action": "kill"}, {}, "--idle-action: 'kill' is nothing to do; expected tell or suspend"),
        ({}, {"ROTA_PORT": "70000"}, "ROTA_PORT: 70000 is no port; expected 0 to 65535"),
        ({}, {"ROTA_LOST_AFTER": "1ms"}, "ROTA_LOST_AFTER: is too short; expected 1s or more"),
    ],
)
def test_what_is_wrong_elsewhere_names_the_option_or_the_variable(
    tmp_path: Path, flags: dict[str, object], environment: dict[str, str], said: str
) -> None:
    write(tmp_path, port=7682, lost_after="30s")
    assert sentence(tmp_path, flags, environment) == said


def test_what_is_kept_for_ever(tmp_path: Path) -> None:
    """0 and `forever` are the same, shown as `forever`; nothing is ever older than that."""
    chosen = choose(tmp_path, {"keep_history": "0", "keep_files": "forever"}, {})
    assert {name: value for name, value, _ in chosen.lines() if name in ("keep_history", "keep_files")} == {
        "keep_history": "forever",
        "keep_files": "forever",
    }
    keep = keep_of(chosen.config)
    assert (keep.history_s, keep.files_s) == (math.inf, math.inf)
    assert keep.checkpoints_s == 7 * 86400.0


def test_tenants(tmp_path: Path) -> None:
    assert {"tenants", "layout", "caps", "notify", "autoscale", "prices", "failures"} == ONLY_IN_FILE
    write(
        tmp_path,
        tenants={
            "vision": {"quota": 32, "hard": True, "weight": 2},
            "vision/ann": {"by_type": {"A100": 4}},
            "speech": None,
            "lab": {
                "cells": [{"level": "node", "count": 2, "type": "A100"}, {"level": "device", "count": 1}]
            },
        },
    )
    tenants = tenants_of(choose(tmp_path, {}, {"ROTA_TENANTS": "ignored"}).config)
    assert tenants.by_path["vision"].quota_gpus == 32
    assert tenants.by_path["vision"].hard
    assert tenants.by_path["vision"].weight == 2
    assert tenants.by_path["vision/ann"].quota_by_type == {"A100": 4.0}
    assert tenants.by_path["speech"].quota_gpus == math.inf
    assert tenants.by_path["lab"].cells == (CellQuota("node", 2, "A100"), CellQuota("device", 1))


def test_every_flag_of_up_is_a_key_of_the_file() -> None:
    """What one start may say, the file may say for all; `--config` names it, `--json` is about the answer."""
    flags = set(inspect.signature(service.up).parameters) - {"config", "as_json"}
    assert flags <= {one.name for one in fields(Config)}


@pytest.mark.parametrize(
    "tenants",
    [
        ["vision"],
        {"vision": 5},
        {"vision": {"qouta": 5}},
        {"vision": {"quota": "many"}},
        {"vision": {"quota": -1}},
        {"vision": {"quota": math.nan}},
        {"vision": {"hard": "perhaps"}},
        {"vision": {"by_type": ["A100"]}},
        {"vision": {"by_type": {"A100": "all"}}},
        {"vision": {"weight": 0}},
        {"vision": {"cells": [{"level": "rack", "count": 1}]}},
        {"vision": {"cells": [{"level": "node", "count": 0}]}},
        {"vision": {"cells": "node"}},
        {"": {"quota": 1}},
    ],
)
def test_tenants_that_make_no_sense(tmp_path: Path, tenants: Any) -> None:
    write(tmp_path, tenants=tenants)
    assert "tenant" in sentence(tmp_path, {})


def test_own_rules_of_the_classifier_come_first(tmp_path: Path) -> None:
    own = [{"name": "filer", "cause": "infrastructure", "log": "ImportError: lib"}]
    own += [{"name": "mine", "cause": "oom", "codes": [17], "signals": []}]
    write(tmp_path, failures=own)
    rules = rules_of(choose(tmp_path, {}, {}).config.failures)
    assert rules[2:] == RULES
    assert (
        judge(Exit(ended_s=0, code=1, tail="ImportError: lib"), "", 85, rules).cause is Cause.INFRASTRUCTURE
    )
    assert judge(Exit(ended_s=0, code=17), "", 85, rules).rule == "mine"


@pytest.mark.parametrize(
    "rule",
    [
        "filer",
        {"cause": "user", "codes": [1]},
        {"name": "x", "cause": "user"},
        {"name": "x", "cause": "weather", "codes": [1]},
        {"name": "x", "cause": "finished", "codes": [1]},
        {"name": "x", "cause": "requeue", "codes": [1]},
        {"name": "x", "cause": "user", "codes": 5},
        {"name": "x", "cause": "user", "codes": "12"},
        {"name": "x", "cause": "user", "codes": ["one"]},
        {"name": "x", "cause": "user", "signals": ["SIGKILL"]},
        {"name": "x", "cause": "user", "log": "("},
        {"name": "x", "cause": "user", "log": 5},
        {"name": "x", "cause": "user", "log": "a", "colour": "red"},
    ],
)
def test_rules_that_make_no_sense(tmp_path: Path, rule: Any) -> None:
    write(tmp_path, failures=[rule])
    assert sentence(tmp_path, {}).startswith(f"{tmp_path / 'config.yaml'}: failures: rule 1: ")


def test_failures_that_are_no_list(tmp_path: Path) -> None:
    write(tmp_path, failures={"name": "x"})
    assert sentence(tmp_path, {}).startswith(f"{tmp_path / 'config.yaml'}: failures: ")


def test_sources_of_knowledge_and_pauses(tmp_path: Path) -> None:
    config = choose(
        tmp_path, {"knowledge": " duration=predicted , ", "back_off": "2s", "back_off_most": "5s"}, {}
    ).config
    assert knowledge_of(config) == {"duration": "predicted"}
    assert [back_off_of(config).after(n) for n in (1, 2, 3)] == [2.0, 4.0, 5.0]

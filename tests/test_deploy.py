"""What `deploy/` holds fits to what there is: commands, settings, and jobs that outlive their agent."""

from __future__ import annotations

import configparser
import re
from dataclasses import fields
from pathlib import Path

import pytest

from rota.cli.commands import LIVE
from rota.server.config import Config

DEPLOY = Path(__file__).parents[1] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SETTINGS = {f"ROTA_{one.name.upper()}" for one in fields(Config)}
OF_AGENTS = {"ROTA_JOIN", "ROTA_JOIN_TOKEN", "ROTA_AGENT_DEVICES"}
"""What only the unit of agents uses, or `rota agent` reads itself."""


def unit(name: str) -> dict[str, str]:
    """The `[Service]` of a unit."""
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(DEPLOY / "systemd" / f"rota-{name}.service")
    return dict(parser["Service"])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_start_commands_that_say_when_they_are_ready(path: Path) -> None:
    service = unit(path.stem.removeprefix("rota-"))
    program, command, *_ = service["ExecStart"].split()
    assert (Path(program).name, command in LIVE, service["Type"]) == ("rota", True, "notify")
    assert service["ExecStart"].count("${") == len(OF_AGENTS & set(re.findall(r"\w+", service["ExecStart"])))


def test_jobs_outlive_their_agent() -> None:
    """Whatever becomes of it: it is stopped, it is upgraded, one of its jobs runs out of memory."""
    service = unit("agent")
    assert (service["KillMode"], service["OOMPolicy"]) == ("process", "continue")
    assert (service["Delegate"], service["TasksMax"]) == ("yes", "infinity")
    forbidden = {"NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectSystem", "User"}
    assert forbidden & service.keys() == set(), "binds every job"


def test_files_name_settings_that_there_are() -> None:
    for path in (*UNITS, DEPLOY / "Containerfile"):
        named = set(re.findall(r"\bROTA_\w+", path.read_text(encoding="utf-8")))
        assert named - SETTINGS - OF_AGENTS - {"ROTA_HOME"} == set(), path.name


def test_the_container_runs_as_nobody_special() -> None:
    """And copies what the build of the package needs."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    last = text.split("\nFROM ")[-1]
    assert re.search(r"^USER (?!0\b)\d+$", last, re.MULTILINE)
    assert 'CMD ["controller"]' in last
    copied = [
        word for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE) for word in line.split()
    ]
    assert set(copied) >= {"pyproject.toml", "setup.py", "README.md", "LICENSE", "src"}
    assert all((DEPLOY.parent / name).exists() for name in copied)

"""`rota doctor`: runs all checks, one after another, and prints their findings."""

from __future__ import annotations

import platform
import shutil
import socket
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from rota.cli.doctor import clocks, controller, devices, disk, machine, network, secrets, software
from rota.cli.doctor.finding import FindingState, Look, MachineFinding, MachinePlaces, looked
from rota.cli.shell import print_json

SECTIONS: Mapping[str, Sequence[Look]] = {
    "Installation": (software.kernel, software.engine, software.packages),
    "Devices": (devices.gpus, devices.cores),
    "Machine": (machine.memory, machine.control_groups, machine.limits, machine.user),
    "Clocks": (clocks.wall_clock, clocks.sleep),
    "Disk": (disk.home_folder, secrets.secret_files),
    "Network": (network.ports, network.address, network.node_name),
    "Cluster": (controller.settings, controller.controller),
}
"""Sections in the order of the report."""
_COLOURS = {
    FindingState.ADVICE: "yellow",
    FindingState.UNKNOWN: "yellow",
    FindingState.BROKEN: "red",
    FindingState.OK: "green",
}
_WIDEST = 110


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Say what this machine can do: devices, driver, clocks, disk, limits, controller, with advice.

    \b
    Examples:
      rota doctor
      rota doctor --json | jq '.findings[] | select(.state != "ok")'

    Needs no controller, and changes nothing.  Exit code: 1 if something is broken, else 0.
    """
    from rota.cli.live.connect import home

    by_section = examined(MachinePlaces(home()))
    broken = sum(one.state is FindingState.BROKEN for findings in by_section.values() for one in findings)
    if as_json:
        rows = [{"section": section, **asdict(one)} for section, ones in by_section.items() for one in ones]
        print_json({"ok": not broken, "machine": _machine(), "findings": rows})
    else:
        _show(by_section)
    raise typer.Exit(1 if broken else 0)


def examined(where: MachinePlaces) -> dict[str, list[MachineFinding]]:
    """Findings by section."""
    return {
        section: [one for look in looks for one in looked(look, where)] for section, looks in SECTIONS.items()
    }


def _machine() -> dict[str, str]:
    from rota.model.revision import full_version

    return {"host": socket.gethostname(), "rota": full_version(), "python": platform.python_version()}


def _show(by_section: Mapping[str, Sequence[MachineFinding]]) -> None:
    said = _machine()
    typer.echo(f"rota {said['rota']} on {said['host']}, Python {said['python']}")
    width = max(len(one.subject) for ones in by_section.values() for one in ones)
    columns = min(shutil.get_terminal_size((100, 24)).columns, _WIDEST)
    for section, ones in by_section.items():
        typer.echo(f"\n{section}")
        for one in ones:
            _show_finding(one, width, columns)
    typer.echo(f"\n{summary(by_section)}")


def _show_finding(one: MachineFinding, width: int, columns: int) -> None:
    """The state, the subject and the fact, and the advice below."""
    lead = " " * (2 + 8 + width + 2)
    typer.secho(f"  {one.state:<8}", fg=_COLOURS[one.state], nl=False)
    lines = textwrap.wrap(one.says, columns - len(lead), break_on_hyphens=False) or [""]
    typer.echo(f"{one.subject:<{width}}  {lines[0]}")
    for line in lines[1:]:
        typer.echo(lead + line)
    for number, line in enumerate(textwrap.wrap(one.advice, columns - len(lead) - 2, break_on_hyphens=False)):
        typer.secho(f"{lead}{'→ ' if not number else '  '}{line}", dim=True)


def summary(by_section: Mapping[str, Sequence[MachineFinding]]) -> str:
    """The last line: the most urgent findings."""
    counts = Counter(one.state for ones in by_section.values() for one in ones)
    broken = [one.subject for ones in by_section.values() for one in ones if one.state is FindingState.BROKEN]
    if broken:
        return f"Broken: {', '.join(broken)}."
    rest = [
        f"{counts[state]} marked `{state}`"
        for state in (FindingState.ADVICE, FindingState.UNKNOWN)
        if counts[state]
    ]
    return "Nothing is broken" + (f"; {' and '.join(rest)}." if rest else ".")

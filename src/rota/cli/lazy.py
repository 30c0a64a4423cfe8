"""Commands that are imported when they are called, help in sections, and names that other tools use.

`rota --help` names some forty commands; importing them all would take longer than most of them run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

OTHER = "Other"
HERE = {
    "ls": ("squeue", "qstat", "bjobs", "queue", "jobs", "list", "ps"),
    "submit": ("qsub", "bsub", "launch"),
    "submit --sbatch FILE": ("sbatch",),
    "run": ("srun",),
    "shell": ("salloc", "interactive"),
    "cancel": ("scancel", "qdel", "bkill", "kill", "delete", "del", "rm", "remove", "abort"),
    "show": ("scontrol", "describe", "info", "inspect"),
    "attach": ("wait", "follow"),
    "logs": ("log", "tail"),
    "nodes": ("sinfo", "pbsnodes", "bhosts", "node", "hosts"),
    "history": ("sacct", "bhist"),
    "usage": ("sreport",),
    "user": ("sacctmgr", "users"),
    "drain": ("cordon",),
    "drain --undo": ("undrain", "uncordon"),
    "systems": ("policies",),
    "top": ("watch", "monitor"),
    "--version": ("version",),
}
"""What to type after `rota` -> names of that command in Slurm, PBS, LSF, Kubernetes, and by habit."""


@dataclass(frozen=True)
class Lazy:
    """The module of a command, and its line in the help."""

    target: str
    """`module:name` of a function or a `typer.Typer`."""
    summary: str
    """First line of its docstring; a test compares them."""


class Sectioned(TyperCommand):
    """A command with options in sections, named by their `rich_help_panel`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, options without a section, then the sections in the order of their options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            ours = "Arguments" if parameter.param_type_name == "argument" else "Options"
            sections.setdefault(getattr(parameter, "rich_help_panel", None) or ours, []).append(record)
        names = sorted(sections, key=lambda name: {"Arguments": 0, "Options": 1}.get(name, 2))
        for name in names:
            with formatter.section(name):
                formatter.write_dl(sections[name])


class LazyGroup(TyperGroup):
    """A group with commands that are not imported yet, listed in sections."""

    def declare(self, table: Mapping[str, Lazy], sections: Mapping[str, tuple[str, ...]]) -> None:
        """Add the commands of `table`, unless one of that name is there already."""
        self._table = table
        self._sections = sections
        for name, lazy in table.items():
            if name not in self.commands:
                # Known by name and summary, for the list and for guesses at misspelt names.
                self.commands[name] = TyperCommand(name=name, short_help=lazy.summary, help=lazy.summary)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command itself, imported now if it was not."""
        lazy = self._table.get(cmd_name)
        if lazy is not None and type(self.commands.get(cmd_name)) is TyperCommand:
            self.commands[cmd_name] = load(lazy.target, cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named.  For a command of another tool the error names the one of this tool."""
        if args and args[0] not in self.commands and (ours := command_here(args[0])):
            ctx.fail(f"no such command {args[0]!r}; here it is `rota {ours}`")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, section by section."""
        named = [name for names in self._sections.values() for name in names if name in self.commands]
        return named + [name for name in self.commands if name not in named]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """One list for each section."""
        left = {name: command for name, command in self.commands.items() if not command.hidden}
        limit = formatter.width - 6 - max(map(len, left))
        for section, names in (*self._sections.items(), (OTHER, tuple(left))):
            rows = [(name, left.pop(name).get_short_help_str(limit)) for name in names if name in left]
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows, col_max=max(map(len, self.commands)))


def load(target: str, name: str) -> Any:
    """The command at `module:name`."""
    module, _, attribute = target.partition(":")
    member = getattr(import_module(module), attribute)
    if not isinstance(member, typer.Typer):
        one = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        one.command(name, cls=Sectioned)(member)
        member = one
    command = typer.main.get_command(member)
    command.name = name
    return command


def command_here(word: str) -> str:
    """The command here for `word`, a command of another tool; empty for any other word."""
    return next((ours for ours, theirs in HERE.items() if word.lower() in theirs), "")

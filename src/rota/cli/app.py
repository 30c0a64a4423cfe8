"""The whole command line: its commands, and how it reports errors.

Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import re
import signal
import sys
from typing import Annotated, Any

import typer

from rota.cli import advise, analyze, fidelity, figure, moments, promise, simulate, systems, trace
from rota.cli.commands import DESCRIBING, LIVE, SECTIONS
from rota.cli.lazy import LazyGroup
from rota.cli.streams import discard_output, sentence_of
from rota.cli.terminal import one_line
from rota.errors import InputError, RotaError

INTERRUPTED = 130
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Of the click that typer stands on, which is its own or a package."""


class Shell(LazyGroup):
    """Turns errors meant for people into one sentence and an exit code."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.declare(LIVE, SECTIONS)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().make_context(*arguments, **options)
        except UsageError as error:
            raise _misused(error) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except UsageError as error:
            raise _misused(error) from None
        except RotaError as error:
            _complain(getattr(error, "in_command", None) or str(error))
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            _complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader has closed the pipe: the rest of the output goes nowhere.
            discard_output()
            raise typer.Exit(0) from None
        except OSError as error:
            _complain(sentence_of(error))
            raise typer.Exit(1) from None


def _misused(error: Any) -> Exception:
    """The exception to raise for wrong words of a command, after one line that names the error."""
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error  # no mistake: its text is the help
    said = str(error.format_message()).removesuffix(".")
    said = said[:1].lower() + said[1:]
    for theirs, ours in _WORDED:
        said = theirs.sub(ours, said)
    said += _meant(error)
    if not said.endswith("?") and error.ctx is not None:  # else it has suggested an option
        said += f"; `{error.ctx.command_path} -h` says more"
    _complain(said)
    return typer.Exit(InputError.exit_code)


def _meant(error: Any) -> str:
    """A hint for an option that a command describing a job does not have."""
    option = getattr(error, "option_name", None) if type(error).__name__ == "NoSuchOption" else None
    if option is None or error.ctx is None or error.ctx.info_name not in DESCRIBING:
        return ""
    from rota.client.sbatch_options import said_of

    said = said_of(option)
    return f"; {said}" if said else "; options of the program stand behind `--`"


_WORDED = (
    (re.compile(r"Value error, "), ""),
    (re.compile(r"Input should be (.*?), unable to parse string as an? \w+"), r"expected \1"),
)
"""The library's wordings of refusals, and ours."""
_LONG = re.compile(r"\S{400,}")
"""A word too long to print, such as a cell of a broken file."""


def _complain(sentence: str) -> None:
    typer.secho("rota: ", fg=typer.colors.RED, bold=True, err=True, nl=False)
    short = _LONG.sub(lambda word: f"{word[0][:60]}... ({len(word[0]):,} characters)", sentence)
    typer.echo("\n".join(map(one_line, short.split("\n"))), err=True)


def _version(asked: bool) -> None:
    if asked:
        from rota.model.revision import full_version
        from rota.table.compiled import is_compiled

        typer.echo(f"rota {full_version()}, engine {'compiled' if is_compiled() else 'interpreted'}")
        raise typer.Exit


app = typer.Typer(
    name="rota",
    cls=Shell,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback()
def rota(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A scheduler for deep-learning GPU clusters: run jobs, or replay a history of them, under any policy.

    \b
    Examples:
      rota up
      rota submit --gpus 2 --time 3h -- python train.py
      rota why 17
      rota trace generate --jobs 5000 --load 0.9 --cluster 16x8 --out jobs.csv
      rota simulate jobs.csv --cluster 16x8:V100 --policy tiresias,srtf,fifo --out out/
      rota systems tiresias

    \b
    Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted.
    """


app.command("simulate")(simulate.simulate)
app.command("advise")(advise.advise)
app.command("analyze")(analyze.analyze)
app.add_typer(trace.app, name="trace")
app.command("snapshot")(moments.snapshot)
app.command("replay")(moments.replay)
app.command("figure")(figure.figure)
app.command("promise")(promise.promise)
app.command("systems")(systems.systems)
app.command("fidelity")(fidelity.fidelity)


def run(words: list[str]) -> None:
    """Carry out `rota WORDS`; ends by SystemExit."""
    try:
        app(words, prog_name="rota")
    except SystemExit as left:
        if left.code == INTERRUPTED:  # another Ctrl-C would spoil it while Python takes leave
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            # `python -m` would end by the signal if the interrupt came within `exec` (a dataclass was being
            # made, by an import): Python remembers that it passed there until it evaluates a text again.
            eval("0")
        raise

"""`rota completion`: lines that make a shell complete commands, options, policies, jobs and nodes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

VARIABLE = "_ROTA_COMPLETE"
"""Set by these lines when the shell asks; the rest is in the environment, as the shell has it."""

FROM_A_FILE = '[[ ${zsh_eval_context[-1]} != loadautofunc ]] || _rota_completion "$@"'
"""zsh reads a file of completions when they are first asked for: that question wants an answer as well."""


class ShellName(StrEnum):
    """Shells that can be served."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[ShellName, typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
) -> None:
    """Print what a shell needs to complete commands, options, policies, and ids of live jobs.

    \b
    Examples:
      source <(rota completion bash)                          # this shell; or in ~/.bashrc
      rota completion bash > /etc/bash_completion.d/rota      # all users
      rota completion zsh > ~/.zfunc/_rota                    # with `fpath+=~/.zfunc; compinit`
      rota completion fish > ~/.config/fish/completions/rota.fish

    Make the folder first where it is not there (mkdir -p).
    """
    typer.echo(script(shell))


def script(shell: ShellName) -> str:
    """The lines for `shell`."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    lines = str(get_completion_script(prog_name="rota", complete_var=VARIABLE, shell=shell.value)).strip()
    return f"{lines}\n{FROM_A_FILE}" if shell is ShellName.ZSH else lines

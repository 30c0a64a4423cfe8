"""The `rota` command: answers the most frequent calls directly, all others by the whole command line."""

from __future__ import annotations

import sys

from rota.cli.quick import left_over
from rota.cli.streams import discard_output, sentence_of, stand_in_for_closed


def main() -> None:
    """Entry point of the `rota` script."""
    stand_in_for_closed()
    if any("://" in word or word.startswith("--token") for word in sys.argv):
        from rota.cli.secret_words import hide

        hide(sys.argv[1:])
    try:
        _carry_out(sys.argv[1:])
    except KeyboardInterrupt:
        print("rota: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader has closed the pipe
        discard_output()
    except OSError as error:
        print(f"rota: {sentence_of(error)}", file=sys.stderr)
        sys.exit(1)


def _carry_out(typed: list[str]) -> None:
    words = left_over(typed)
    if words is not None:
        from rota.cli.app import run

        run(words)
    sys.stdout.flush()


if __name__ == "__main__":
    main()

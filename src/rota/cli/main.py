"""The `rota` command: what is typed most is answered at once, all else by the whole command line."""

from __future__ import annotations

import sys

from rota.cli.quick import left_over


def main() -> None:
    """Entry point of the `rota` script."""
    if any("://" in word or word.startswith("--token") for word in sys.argv):
        from rota.cli.secret_words import hide

        hide(sys.argv[1:])
    try:
        words = left_over(sys.argv[1:])
    except KeyboardInterrupt:
        print("rota: interrupted", file=sys.stderr)
        sys.exit(130)
    if words is not None:
        from rota.cli.app import run

        run(words)


if __name__ == "__main__":
    main()

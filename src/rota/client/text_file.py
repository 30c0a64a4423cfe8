"""Text files of a user, read whole: UTF-8 with the line ends of Unix, or one sentence about what is wrong."""

from __future__ import annotations

from pathlib import Path

from rota.errors import InputError
from rota.wire.script import windows_row


def read_text(file: Path, most_bytes: int, expected: str) -> str:
    """Contents of the file. Raises InputError if there is no such file, with `expected` in its message."""
    try:
        with file.open("rb") as stream:
            data = stream.read(most_bytes + 1)
    except FileNotFoundError:
        raise InputError.at("there is no such file", file=file, expected=expected) from None
    except OSError as error:
        raise InputError.at(f"cannot be read ({error.strerror})", file=file, expected=expected) from None
    if len(data) > most_bytes:
        most = f"{expected} of at most {most_bytes >> 20} MiB; keep data in a file beside it"
        raise InputError.at("is too large", file=file, expected=most)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        wanted = "UTF-8; `iconv -f latin1 -t utf-8` may help"
        raise InputError.at("is no text in UTF-8", file=file, row=row, expected=wanted) from None
    if "\0" in text:
        raise InputError.at("holds NUL characters", file=file, expected=f"{expected}, as text")
    if (row_of_windows := windows_row(text)) is not None:
        wanted = f"\\n: run `dos2unix {file}`"
        raise InputError.at("ends as on Windows (\\r\\n)", file=file, row=row_of_windows, expected=wanted)
    return text

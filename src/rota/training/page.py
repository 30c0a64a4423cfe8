"""The command page: eight words of 8 bytes that a rank reads at every step without a system call.

`rota.training.protocol` says what the words mean.
"""

from __future__ import annotations

import mmap
import os
import stat
import sys
from typing import TYPE_CHECKING, Any

from rota.training.checked import MOST_COUNT

PAGE = "command"
_WORDS = 8
_CHECK = 0x5A5A_A5A5_3C3C_C3C3

if TYPE_CHECKING:
    from pathlib import Path

    Folder = str | Path


class FileWords:
    """The words of a page, read and written through the file.

    For the agent: if a job truncates a file that is mapped, the process that reads the mapping dies; through
    the file that is an OSError.
    """

    def __init__(self, file: int) -> None:
        self._file = file

    def __getitem__(self, place: int) -> int:
        data = os.pread(self._file, 8, 8 * place)
        if len(data) != 8:
            raise OSError("the command page has been cut short")
        return int.from_bytes(data, "little")

    def __setitem__(self, place: int, value: int) -> None:
        os.pwrite(self._file, value.to_bytes(8, "little"), 8 * place)

    def release(self) -> None:
        """Close the file."""
        os.close(self._file)


class Page:
    """The command page. Words are read and written whole (one aligned 8-byte access each)."""

    words: Any
    """The words by number: mapped for ranks, through the file for the agent."""

    def __init__(self, folder: Folder, mapped: bool = True) -> None:
        """The page of `folder`; makes an empty one if there is none. Raises OSError if that fails."""
        if sys.byteorder != "little":
            raise OSError("the command page of rota.training is little-endian; this machine is not")
        flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        file = os.open(os.path.join(str(folder), PAGE), flags, 0o600)
        self._map: Any = None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                raise OSError("the command page is not an ordinary file of its own")
            if status.st_size < 8 * _WORDS:
                os.ftruncate(file, 8 * _WORDS)
            if mapped:
                self._map = mmap.mmap(file, 8 * _WORDS)
        except BaseException:
            os.close(file)
            raise
        if not mapped:
            self.words = FileWords(file)
            return
        os.close(file)
        self._bytes = memoryview(self._map)
        self.words = self._bytes.cast("Q")

    def close(self) -> None:
        """Release the page, which cannot be used afterwards."""
        self.words.release()
        if self._map is not None:
            self._bytes.release()
            self._map.close()

    @property
    def sequence(self) -> int:
        """Sequence of the newest directive; 0 before the first."""
        return int(self.words[0])

    def checked_sequence(self) -> int:
        """Sequence of the newest directive, for the agent; OSError for a number that no agent has written."""
        if (sequence := self.sequence) > MOST_COUNT:
            raise OSError(f"the command page holds {sequence}, which is no sequence of a directive")
        return sequence

    def agree(self, sequence: int, stop_step: int) -> None:
        """Publish: all ranks stop at the gate of `stop_step` for directive `sequence`."""
        words = self.words
        words[3] = 0
        words[1] = stop_step + 1
        words[2] = sequence
        words[3] = (stop_step + 1) ^ (sequence << 1) ^ _CHECK

    def agreed(self) -> tuple[int, int] | None:
        """(sequence, stop step) last published; None if there is none or if it is just being written."""
        words = self.words
        check, stop, sequence = words[3], words[1], words[2]
        if not stop or check != stop ^ (sequence << 1) ^ _CHECK:
            return None
        return sequence, stop - 1

    def judge(self, sequence: int, verdict: int) -> None:
        """Publish how a stop ends, by the leading rank: `GO_ON`, `GO_AWAY` or `SAVE`."""
        self.words[4] = 4 * sequence + verdict

    def verdict(self, sequence: int) -> int | None:
        """How the stop for `sequence` ends; None until the leading rank has published it."""
        said = self.words[4]
        return said & 3 if said >> 2 == sequence else None

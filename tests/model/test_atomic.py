"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from rota.model.atomic import replacing


@pytest.fixture(params=[0o022, 0o027, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield int(request.param)
    os.umask(before)


def test_modes_follow_the_umask(umask: int, tmp_path: Path) -> None:
    """Everything written may be read by whom the umask lets read: traces, moments, tables, the report."""
    trace = rota.generate(20, seed=1, cluster=8)
    rota.write(trace, tmp_path / "t.csv")
    rota.write(trace, tmp_path / "t.parquet.gz")
    rota.simulate(trace, cluster="1x8", workers=1).write(tmp_path / "out", csv=True)
    rota.snapshot(trace, tmp_path / "new" / "m.rota", cluster="1x8", policy="fifo", at_s=0.0)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 10  # the CSV has its metadata beside it
    assert {path.stat().st_mode & 0o777 for path in files} == {0o666 & ~umask}


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()

    def write() -> None:
        with replacing(tmp_path / "taken") as partial:
            partial.write_text("x")

    with pytest.raises(IsADirectoryError) as raised:
        write()
    assert (raised.value.filename, raised.value.filename2) == (str(tmp_path / "taken"), None)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    """`--csv /dev/null` as root took /dev/null from everybody on the machine."""
    pipe, link = tmp_path / "pipe", tmp_path / "nothing"
    os.mkfifo(pipe)
    link.symlink_to("/dev/null")
    reads = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for path in (pipe, link):
            with replacing(path) as place:
                place.write_text("said")
        assert os.read(reads, 10) == b"said"
    finally:
        os.close(reads)
    assert pipe.is_fifo()
    assert link.is_char_device()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


def write(path: Path, text: str) -> None:
    with replacing(path) as place:
        place.write_text(text)


def give_up(path: Path, folder: Path) -> None:
    with replacing(path) as place:
        place.write_text("half")
        assert place.parent == folder
        raise ZeroDivisionError


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    """Whole or not at all there too: what is half-written lies beside the target, and is taken away."""
    there, link = tmp_path / "there", tmp_path / "here" / "link"
    there.mkdir()
    link.parent.mkdir()
    link.symlink_to("../there/second")
    (there / "second").symlink_to("target")
    for text in ("made by way of a link that leads nowhere", "and written again"):
        write(link, text)
        assert (there / "target").read_text() == text
    with pytest.raises(ZeroDivisionError):
        give_up(link, there)
    assert (there / "target").read_text() == "and written again"
    assert [link.is_symlink(), (there / "second").is_symlink(), (there / "target").is_symlink()] == [1, 1, 0]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["here", "link", "second", "target", "there"]


def test_links_that_lead_in_a_circle_are_refused_and_stay(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(OSError, match="symbolic links") as raised:
        write(one, "x")
    assert raised.value.filename == str(one)
    assert sorted(tmp_path.iterdir()) == [one, other]


def test_an_error_names_the_link_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "link").symlink_to("taken")
    with pytest.raises(IsADirectoryError) as raised:
        write(tmp_path / "link", "x")
    assert (raised.value.filename, raised.value.filename2) == (str(tmp_path / "link"), None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_a_device_stays_a_device(tmp_path: Path) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError as error:
        pytest.skip(f"no devices here: {error.strerror}")
    with replacing(device) as place:
        place.write_text("said")
    assert device.is_char_device()

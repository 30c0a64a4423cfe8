"""Files beside a trace: what is wrong with a text, a table or its cells is said with the place."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rota.client.job_file import read_job_file
from rota.errors import InputError
from rota.knowledge.goodput_file import read_goodputs
from rota.knowledge.hosts_file import read_hosts
from rota.knowledge.pairs_file import read_pairs
from rota.knowledge.regimes_file import stated_regimes
from rota.knowledge.servers_file import read_servers
from rota.knowledge.throughput_file import read_throughputs
from rota.model.cluster_file import load_cluster
from rota.server.config import read_yaml

HOSTS = "workload,cpus_per_gpu,gib_per_gpu,speed\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HOSTS + "a,1,2,1\n\n\na,x,2,1\n", "row 5, column 'cpus_per_gpu'"),
        (HOSTS + "a,1,2,1,7\n", "row 2: has 5 cells; expected 4, as row 1"),
        (HOSTS.replace("speed", "speed,speed") + "a,1,2,1,1\n", "row 1: two columns are called 'speed'"),
        (
            HOSTS + "a" * 1_000_000 + ",1,2,1\n",
            "row 2: cannot be split into cells; expected a cell of at most",
        ),
        (HOSTS + "a,1\n", "row 2, column 'gib_per_gpu'"),
    ],
)
def test_a_table_says_where_it_is_wrong(tmp_path: Path, text: str, expected: str) -> None:
    """Blank lines count as an editor counts them; cells too many are not dropped unseen."""
    (tmp_path / "hosts.csv").write_text(text)
    with pytest.raises(InputError) as error:
        read_hosts(tmp_path / "hosts.csv")
    assert f"hosts.csv, {expected}" in str(error.value)


@pytest.mark.parametrize(
    ("read", "header", "named"),
    [
        (read_hosts, HOSTS.strip() + ",disk_mbs", "disk_mbs"),
        (read_pairs, "workload,other,rate,other_rate,utilization", "utilization"),
        (read_servers, "workload,servers,workers,steps_per_s,server_cpu", "server_cpu"),
    ],
)
def test_a_column_that_nobody_knows_is_refused(
    tmp_path: Path, read: Callable[[Path], object], header: str, named: str
) -> None:
    """A typing mistake in the name of one that may be left out would count for nothing, unseen."""
    (tmp_path / "file.csv").write_text(f"{header}\n")
    with pytest.raises(InputError, match=f"row 1: there is no column '{named}'; expected columns among work"):
        read(tmp_path / "file.csv")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (HOSTS.encode("utf-16"), "is UTF-16, not UTF-8"),
        (gzip.compress(HOSTS.encode() * 9, mtime=0)[:-12], "is compressed, and cut off or damaged"),
        (b"\x1f\x8bxx", "is compressed, and cut off or damaged"),
        (b"\xff\xff\x00", "is not a text file"),
    ],
)
def test_a_text_that_cannot_be_read_says_why(tmp_path: Path, data: bytes, expected: str) -> None:
    (tmp_path / "hosts.csv").write_bytes(data)
    with pytest.raises(InputError, match=expected):
        read_hosts(tmp_path / "hosts.csv")


def test_a_mark_of_the_encoding_is_no_part_of_a_name(tmp_path: Path) -> None:
    """As spreadsheets write it; it used to make the first column unknown."""
    (tmp_path / "hosts.csv").write_text(HOSTS + "a,1,2,1\n", encoding="utf-8-sig")
    assert set(read_hosts(tmp_path / "hosts.csv")) == {"a"}


@pytest.mark.parametrize("read", [read_hosts, read_pairs, read_servers, stated_regimes, read_throughputs])
def test_a_cell_without_an_end_is_no_traceback(tmp_path: Path, read: Callable[[Path], object]) -> None:
    (tmp_path / "x.csv").write_text("a,b\n" + "x" * 200_000 + ",1\n")
    with pytest.raises(InputError, match=r"x\.csv"):
        read(tmp_path / "x.csv")


@pytest.mark.parametrize("read", [read_goodputs, read_hosts, read_throughputs])
def test_json_nested_too_deep_is_no_traceback(tmp_path: Path, read: Callable[[Path], object]) -> None:
    (tmp_path / "x.json").write_text('{"a":' * 100_000)
    with pytest.raises(InputError, match=r"x\.json"):
        read(tmp_path / "x.json")


@pytest.mark.parametrize(
    "read", [load_cluster, partial(read_yaml, must_exist=True), partial(read_job_file, caller={})]
)
def test_yaml_nested_too_deep_is_no_traceback(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """Brackets without an end, in the files of a cluster, a server and a job."""
    (tmp_path / "x.yaml").write_text("[" * 1_000)
    with pytest.raises(InputError, match=r"x\.yaml"):
        read(tmp_path / "x.yaml")

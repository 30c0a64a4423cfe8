"""Commands that show something: tables against golden files (ROTA_BLESS=1), JSON, what they ask for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from live_play import (
    CURVES,
    DETAIL,
    ENDED,
    EVENTS,
    JOBS,
    NODES,
    NOW_S,
    POLICY,
    STATUS,
    TENANTS,
    WHATIF,
    WHY,
    Answer,
    Asked,
    Canned,
    job,
    refusal,
)
from shell_play import check_golden, rota

from rota.cli.live.job_rows import where_or_why
from rota.cli.live.show import detail_text, spark, why_text
from rota.cli.live.tables import pairs_text, table_text
from rota.cli.shell import print_json
from rota.wire.views import JobView, Why

REPLIES = {
    "GET /v1/jobs": JOBS,
    "GET /v1/jobs/15": DETAIL,
    "GET /v1/jobs/15/curves": CURVES,
    "GET /v1/jobs/17/why": WHY,
    "GET /v1/nodes": NODES,
    "GET /v1/status": STATUS,
    "GET /v1/policy": POLICY,
    "GET /v1/tenants": TENANTS,
    "POST /v1/whatif": WHATIF,
    "GET /health": {"ok": True},
    "GET /v1/history": ENDED,
    "GET /v1/events": EVENTS,
    "GET /v1/whoami": {"name": "alice", "admin": False, "tenant": "vision", "account": ""},
    "GET /v1/users": [
        {"name": "alice", "admin": True, "tenant": "vision", "account": "alice"},
        {"name": "bob", "admin": False, "tenant": "speech", "account": ""},
    ],
}
SHOWS = {
    "live_ls.txt": "ls",
    "live_show.txt": "show 15",
    "live_curves.txt": "show 15 --curves",
    "live_why.txt": "why 17",
    "live_nodes.txt": "nodes --devices",
    "live_top.txt": "top --once",
    "live_policy.txt": "policy",
    "live_tenants.txt": "tenants",
    "live_whatif.txt": "whatif --policy srtf --gpus +16",
    "live_history.txt": "history",
    "live_events.txt": "events",
    "live_users.txt": "user ls",
}


@pytest.fixture
def shown(cluster: Canned) -> Canned:
    cluster.replies |= REPLIES
    return cluster


@pytest.mark.parametrize("golden", SHOWS)
def test_text(golden: str, shown: Canned) -> None:
    """Plain lines of at most 100 columns."""
    done = rota(*SHOWS[golden].split())
    assert (done.status, done.err) == (0, "")
    assert max(len(line) for line in done.out.splitlines()) <= 100
    check_golden(golden, done.out)


@pytest.mark.parametrize("command", [*SHOWS.values(), "logs 15"])
def test_json(command: str, shown: Canned) -> None:
    """The same as JSON, whole."""
    shown.replies["GET /v1/jobs/15/logs"] = {"id": "x", "offset": 0, "text": "a\n", "size": 2}
    words = [word for word in command.split() if word != "--once"]
    done = rota(*words, "--json")
    assert done.status == 0
    assert json.loads(done.out)


@pytest.mark.parametrize(
    ("command", "query"),
    [
        ("ls", {"state": "PENDING,OFFERED,RUNNING,SUSPENDED,COMPLETING,REQUEUED", "limit": "1000"}),
        ("ls --all", {"limit": "1000"}),
        ("ls --state failed", {"state": "FAILED", "limit": "1000"}),
        (
            "ls -a --tenant vision --user bob --name x -n 5",
            {"tenant": "vision", "user": "bob", "name": "x", "limit": "5"},
        ),
        ("ls -a --mine", {"user": "alice", "limit": "1000"}),
    ],
)
def test_which_jobs(command: str, query: dict[str, str], shown: Canned) -> None:
    assert rota(*command.split()).status == 0
    assert shown.asked[-1].query == query


def test_more_jobs_than_one_answer_has_come_page_by_page(shown: Canned) -> None:
    """Newest last, whatever page they came with; `before` names the oldest of the page before."""
    every = [job(f"{number}", name=f"n{number}") for number in range(1, 1_004)]

    def listed(call: Asked) -> list[JobView]:
        before = int(call.query.get("before", len(every) + 1))
        return every[: before - 1][-int(call.query["limit"]) :]

    shown.replies["GET /v1/jobs"] = listed
    lines = rota("ls", "--all", "--limit", "1002").out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [f"{number}" for number in range(2, 1_004)]
    asked = [call.query for call in shown.asked if call.path == "/v1/jobs"]
    assert asked == [{"limit": "1000"}, {"limit": "2", "before": "4"}]


def test_no_jobs(cluster: Canned) -> None:
    """The head alone, so that scripts find their columns."""
    cluster.replies["GET /v1/jobs"] = []
    assert rota("ls").out == "JOB  NAME  USER  TENANT  STATE  GPUS  RUN  WAIT  LIMIT  WHERE OR WHY\n"


def test_a_name_with_control_characters(cluster: Canned) -> None:
    """Nothing a user wrote moves the cursor of another."""
    cluster.replies["GET /v1/jobs/17/why"] = WHY
    cluster.replies["GET /v1/events"] = [
        {"seq": 1, "at_s": NOW_S, "who": "bob", "kind": "cancelled", "text": "a\x1b[2Jb\nc"}
    ]
    assert rota("events").out.splitlines()[1].endswith("a [2Jb c")


@pytest.mark.parametrize(
    ("why", "lines"),
    [
        (Why(job="1", state="RUNNING", reasons=[]), ["job 1 is running"]),
        (
            Why(job="1", state="PENDING", reasons=[], basis="it is held by alice"),
            ["job 1 is pending", "estimated start: unknown; it is held by alice"],
        ),
    ],
)
def test_why(why: Why, lines: list[str]) -> None:
    assert why_text(why).splitlines() == lines


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (job("1", "RUNNING", nodes=["a", "b"], reason="Shrunk"), "a,b"),
        (job("1", "RUNNING", nodes=["a"], idle_since_s=NOW_S - 2400), "a (idle 40m)"),
        (job("1", reason="Resources"), "(Resources)"),
        (job("1"), ""),
        (job("1", "COMPLETED", end_s=NOW_S, exit_code=0, reason="COMPLETED"), ""),
        (job("1", "FAILED", end_s=NOW_S, exit_code=3, reason="FAILED"), "(exit 3)"),
        (job("1", "TIMEOUT", end_s=NOW_S, signal=15), "(SIGTERM)"),
        (job("1", "CANCELLED", end_s=NOW_S, reason="Dependency"), "(Dependency)"),
        (job("1", "CANCELLED", end_s=NOW_S), ""),
    ],
)
def test_where_or_why(monkeypatch: pytest.MonkeyPatch, seen: JobView, text: str) -> None:
    monkeypatch.setattr("rota.cli.live.tables.CLOCK", lambda: NOW_S)
    assert where_or_why(seen) == text


@pytest.mark.parametrize(
    ("options", "question"),
    [
        ("", {"policies": ["tiresias"], "gpus": 0, "duration": "user", "seed": 0}),
        (
            "--policy srtf,las:levels=2 --gpus=-8",
            {"policies": ["tiresias", "srtf", "las:levels=2"], "gpus": -8},
        ),
        ("--policy tiresias --policy srtf --gpus +16", {"policies": ["tiresias", "srtf"], "gpus": 16}),
        ("--duration history --seed 3", {"duration": "history", "seed": 3}),
    ],
)
def test_whatif_asks(options: str, question: dict[str, object], shown: Canned) -> None:
    """The policy that decides now stands beside the others."""
    assert rota("whatif", *options.split()).status == 0
    (sent,) = shown.bodies("POST", "/v1/whatif")
    assert {key: sent[key] for key in question} == question


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("ls --state failed,lost", "--state: 'LOST' is no state; expected PENDING, OFFERED, RUNNING, "),
        ("whatif --gpus many", "--gpus: 'many' is no number of devices; expected how many more, such as +16"),
        (
            "whatif --duration oracle",
            "--duration: 'oracle' is none of them; expected user, predicted or history",
        ),
        ("history --since yesterday", "--since: 'yesterday' is not a moment; expected 7d (ago)"),
        ("top --every 2", "--every: '2' is not a duration; expected a unit"),
    ],
)
def test_wrong(command: str, sentence: str, shown: Canned) -> None:
    done = rota(*command.split())
    assert done.status == 2
    assert sentence in done.err


def test_status_names_drained_nodes(shown: Canned) -> None:
    lines = rota("status").out.splitlines()
    assert lines[-2:] == [
        "  drained  laptop (by ann: new power supply)",
        "  trouble  node gpu-9 is lost: nothing heard for 2m",
    ]


def test_how_long_ago_is_by_the_clusters_clock(shown: Canned) -> None:
    """The ends of jobs are told by it, and this machine's may have been set by a day."""
    shown.now_s = 1_700_000_000.0
    assert rota("history", "--since", "1h", "--until", "10m").status == 0
    asked = shown.asked[-1].query
    assert [float(asked[name]) for name in ("since", "until")] == pytest.approx(
        [1_700_000_000.0 - 3600.0, 1_700_000_000.0 - 600.0], abs=60.0
    )


def test_history_as_a_trace(shown: Canned, tmp_path: Path) -> None:
    shown.replies["GET /v1/history"] = Answer(200, "submit_s,gpus,duration_s\n0,1,10\n", "text/csv")
    file = tmp_path / "jobs.csv"
    assert rota("history", "--since", "2026-11-01", "--csv", file).out == f"wrote {file}\n"
    assert file.read_text() == "submit_s,gpus,duration_s\n0,1,10\n"
    assert shown.asked[-1].query == {"since": "1793491200.0", "format": "csv"}
    assert rota("history", "--csv", "-").out == file.read_text()
    assert rota("simulate", file, "--cluster", "1x1", "--quiet").status == 0


def test_events_by_the_page(cluster: Canned, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pages are read; the last N are shown."""
    monkeypatch.setattr("rota.cli.live.history.MOST_EVENTS", 2)
    every = [{"seq": n, "at_s": NOW_S, "who": "a", "kind": "started"} for n in range(1, 6)]
    cluster.replies["GET /v1/events"] = lambda call: [
        e for e in every if e["seq"] > int(call.query["since_seq"])
    ][:2]
    assert [line.split()[0] for line in rota("events", "-n", "3").out.splitlines()] == ["SEQ", "3", "4", "5"]
    assert len(json.loads(rota("events", "--since-seq", "1", "--json").out)) == 4
    assert rota("events", "-n", "0").out.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "call", "body"),
    [
        ("policy set srtf", "PUT /v1/policy", {"policy": "srtf"}),
        ("policy shadow las:levels=2", "PUT /v1/policy/shadow", {"policy": "las:levels=2"}),
        ("policy shadow off", "DELETE /v1/policy/shadow", None),
        ("drain a/b --reason x", "POST /v1/nodes/a/b/drain", {"reason": "x"}),
        ("drain a/b --undo", "POST /v1/nodes/a/b/undrain", {"reason": ""}),
        ("nodes --forget a/b", "POST /v1/nodes/a/b/forget", {}),
        ("user rm bob", "DELETE /v1/users/bob", None),
    ],
)
def test_administration(command: str, call: str, body: object, cluster: Canned) -> None:
    cluster.replies[call] = POLICY if "policy" in command else NODES[1] if "/nodes/" in call else {"ok": True}
    assert rota(*command.split()).status == 0
    assert (f"{cluster.asked[-1].method} {cluster.asked[-1].path}", cluster.asked[-1].body) == (call, body)


def test_a_new_policy_that_ignores_what_waits(cluster: Canned) -> None:
    cluster.replies["PUT /v1/policy"] = POLICY.model_dump(mode="json") | {"warnings": ["no effect"]}
    done = rota("policy", "set", "srtf")
    assert (done.status, done.err) == (0, "rota: no effect\n")


def test_new_user(cluster: Canned, tmp_path: Path) -> None:
    """The token alone on standard output, or in a file that only its owner reads."""
    user = {"name": "bob", "admin": False, "tenant": "speech", "account": "bob"}
    cluster.replies["POST /v1/users"] = Answer(201, {"user": user, "token": "id.secret"})
    cluster.replies["POST /v1/users/bob/token"] = Answer(201, {"user": user, "token": "id.new"})
    done = rota("user", "add", "bob", "--tenant", "speech", "--account", "bob")
    assert (done.out, done.err) == ("id.secret\n", "user bob of tenant speech\n")
    assert cluster.asked[-1].body == {"name": "bob", "admin": False, "tenant": "speech", "account": "bob"}
    warned = Answer(201, {"user": user, "token": "id.secret", "warnings": ["user 'bob' has no account"]})
    cluster.replies["POST /v1/users"] = warned
    done = rota("user", "add", "bob")
    assert (done.out, done.err) == (
        "id.secret\n",
        "rota: user 'bob' has no account\nuser bob of tenant speech\n",
    )
    file = tmp_path / "bob.token"
    done = rota("user", "token", "bob", "--out", file)
    assert done.out == f"user bob of tenant speech\ntoken in {file}\n"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("id.new\n", 0o600)
    before = len(cluster.asked)
    assert rota("user", "add", "eve", "--out", file / "x").status == 2
    assert len(cluster.asked) == before, "no token is made that could not be kept"
    done = rota("user", "add", "eve", "--out", file)
    assert (done.status, done.err) == (
        2,
        f"rota: --out: {file} is there already; expected the name of a new file\n",
    )
    assert (len(cluster.asked), file.read_text()) == (before, "id.new\n"), "nobody could show it again"


def test_join_token(cluster: Canned, tmp_path: Path) -> None:
    """On standard output, or in a file that only its owner reads; the last one's is void in an hour."""
    cluster.replies["POST /v1/agents/token"] = {"token": "id.join", "lifetime_s": 60.0}
    assert rota("user", "join-token", "--valid", "1m").out == "id.join\n"
    file = tmp_path / "join.token"
    for _ in range(2):
        assert rota("user", "join-token", "--out", file).out == f"token in {file}\n"
        assert (file.read_text(), file.stat().st_mode & 0o777) == ("id.join\n", 0o600)
    assert rota("user", "join-token", "--out", file, "--json").out.count("id.join") == 0


def test_refusal(cluster: Canned) -> None:
    """What the controller says is what the user reads; bad input ends with 2, other failures with 1."""
    cluster.replies["GET /v1/jobs/99"] = refusal(404, "there is no job 99; `rota ls --all` lists them")
    cluster.replies["PUT /v1/policy"] = refusal(403, "only admins may do that; you are 'alice'")
    done = rota("show", "99")
    assert (done.status, done.err) == (2, "rota: there is no job 99; `rota ls --all` lists them\n")
    done = rota("policy", "set", "fifo")
    assert (done.status, done.err) == (1, "rota: only admins may do that; you are 'alice'\n")


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100, 200])
def test_tables_are_no_wider_than_asked(columns: int) -> None:
    """Columns that may be cut give way, the widest first; those of numbers never do."""
    text = table_text(
        "JOB ~NAME >GPUS ~WHY", [("17", "n" * 50, "8", "w" * 90), ("1", "a", "16", "b")], columns
    )
    lines = text.splitlines()
    assert max(map(len, lines)) <= max(columns, 25)
    assert all(line.split()[2] in ("GPUS", "8", "16") for line in lines)


def test_tables_on_narrow_terminals() -> None:
    """What matters less is left out, and names that differ at their ends keep them; a pipe shows all."""
    heads, row = "^DEVICE >GPUS ?TENANT ~WHY", ("a-node-with-a-long-name:7", "8", "vision", "(Dependency)")
    assert table_text(heads, [row], 100).splitlines() == [
        "DEVICE                     GPUS  TENANT  WHY",
        "a-node-with-a-long-name:7     8  vision  (Dependency)",
    ]
    assert table_text(heads, [row], 34).splitlines() == [
        "DEVICE          GPUS  WHY",
        "…a-long-name:7     8  (Dependency)",
    ]


def test_watch_in_a_pipe(cluster: Canned, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames follow each other until Ctrl-C."""

    def second_time(_: object) -> object:
        if len(cluster.asked) > 2:
            raise KeyboardInterrupt
        return [job("17")]

    monkeypatch.setattr("rota.cli.live.tables.time.sleep", lambda _: second_time(None))
    cluster.replies["GET /v1/jobs"] = [job("17")]
    done = rota("ls", "--watch")
    assert (done.status, done.out.count("JOB  NAME")) == (130, 3)


def test_a_shadow_that_agrees(shown: Canned) -> None:
    """A shadow that would do nothing else is told in one sentence."""
    shown.replies["GET /v1/policy"] = POLICY.model_copy(update={"shadow": "srtf", "shadow_would": []})
    assert rota("policy").out.splitlines()[-1] == f"srtf would do now what {POLICY.policy} does"


def test_a_script_and_its_end(shown: Canned) -> None:
    """A script is shown by its number of lines, and the cause of a job's end once."""
    cause = "rank 0 exited with code 127: " + "there is no such program " * 4
    ended = DETAIL.attempts[0].model_copy(update={"cause": cause.strip()})
    spec = DETAIL.spec.model_copy(update={"command": ["/bin/sh", "-c", "cd data\n./train $1\n", "train.sh"]})
    over = DETAIL.job.model_copy(update={"cause": cause.strip()})
    shown.replies["GET /v1/jobs/15"] = DETAIL.model_copy(
        update={"job": over, "spec": spec, "attempts": [ended]}
    )
    lines = rota("show", "15").out.splitlines()
    assert "command     /bin/sh -c '(2 lines)' train.sh" in lines
    assert max(map(len, lines)) <= 100
    assert sum("exited with code 127" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("spoke", "line"),
    [
        (0, "speaks       rota.training 1\n"),
        (1, "speaks       rota.training 1 (attempt 1 did; attempt 2 has not said anything yet)\n"),
        (2, "speaks       rota.training 1\n"),
    ],
)
def test_show_says_whose_word_on_the_program_is_known(spoke: int, line: str) -> None:
    """An attempt that still imports its libraries has said nothing; 0: on record before that was noted."""
    assert DETAIL.capability is not None
    can = DETAIL.capability.model_copy(update={"attempt": spoke})
    assert line in detail_text(DETAIL.model_copy(update={"capability": can}))


@pytest.mark.parametrize(
    ("lost_s", "line"), [(0.4, ""), (500.0, "lost         8m 20s of work by preemption\n")]
)
def test_show_tells_what_preemption_cost(lost_s: float, line: str) -> None:
    """Over all attempts; what is hardly anything is not worth a line."""
    one, two = (attempt.model_copy(update={"lost_s": lost_s / 2}) for attempt in DETAIL.attempts[:2])
    text = detail_text(DETAIL.model_copy(update={"attempts": [one, two]}))
    assert [said + "\n" for said in text.splitlines() if said.startswith("lost")] == [line] * bool(line)


def test_nothing_that_is_shown_obeys_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    """Other users' commands, names and comments hold no escapes for this terminal."""
    shown = pairs_text([("command", "echo \x1b[2J\x9b31m\nnext"), ("comment", "\x07bell")])
    assert shown == "command  echo  [2J 31m next\ncomment   bell\n"
    print_json({"cause": "\x1b[2J\x9b31m\x7f"})
    assert capsys.readouterr().out == '{\n  "cause": "\\u001b[2J\\u009b31m\\u007f"\n}\n'


def test_sparks() -> None:
    """From least to most whatever the numbers are; silence is blank, one value is a bar."""
    assert spark([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, None, 7.0]) == "▁▂ █"
    assert spark([5.0], [3.0]) == "▁"
    assert spark([0.0, 1.0], [-1e300, 1e300]) == "▁█"
    assert len(spark([float(i) for i in range(500)], [float(i) for i in range(500)])) == 32

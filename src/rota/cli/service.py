"""`rota up`, `down`, `config`, `agent`: the processes of a live cluster on this machine."""

from __future__ import annotations

import functools
import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.background import (
    AGENT_DEVICES,
    AGENT_LOG,
    CONTROLLER_FILE,
    CONTROLLER_LOG,
    Started,
    agent_pid,
    answers,
    controller_pid,
    left_running,
    make_home,
    only_one_starts,
    stop,
)
from rota.cli.live.connect import connect, home, recorded_url
from rota.cli.live.tables import warn
from rota.cli.secret_words import secrets_in
from rota.cli.shell import LIVE_KNOWLEDGE_HELP, JsonFlag, console, print_json
from rota.errors import RotaError, WorldError
from rota.model.one_thread import one_thread
from rota.model.units import plural

if TYPE_CHECKING:
    from rota.client import Client
    from rota.server.config import Config

Text = str | None
CANCELLERS = 8
END_WITHIN_S = 30.0
"""Seconds that `down --kill-jobs` waits for jobs to end."""
MOST_TROUBLES = 4
"""Troubles of a cluster that are printed when it starts."""
SETTINGS = "Settings"
ANSWERS, UNKNOWN = "the controller takes part", "this node is not known to the controller"
"""Lines that an agent logs on the answer to its first question."""


def _setting(flag: str, metavar: str, help: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=help, rich_help_panel=SETTINGS)


ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings; $ROTA_HOME/config.yaml if not given."),
]


def up(
    config: ConfigFile = None,
    name: Annotated[Text, _setting("--name", "NAME", "Name of the cluster.")] = None,
    policy: Annotated[Text, _setting("--policy", "SPEC", "Policy at the first start.")] = None,
    devices: Annotated[
        Text,
        _setting("--devices", "SPEC", "This machine's devices: auto, nvidia, cpu:4, or none for no agent."),
    ] = None,
    node: Annotated[Text, _setting("--node", "NAME", "Name of this machine's node.")] = None,
    host: Annotated[Text, _setting("--host", "ADDRESS", "Where to listen; 127.0.0.1 if not given.")] = None,
    port: Annotated[
        int | None, _setting("--port", "N", "Port to listen on; a free one if not given.")
    ] = None,
    database_url: Annotated[
        Text, _setting("--database-url", "URL", "Where the state is; SQLite in $ROTA_HOME if not given.")
    ] = None,
    knowledge: Annotated[Text, _setting("--knowledge", "KIND=SOURCE", LIVE_KNOWLEDGE_HELP)] = None,
    deadline: Annotated[Text, _setting("--deadline", "TIME", "Time a policy may take to decide.")] = None,
    min_run: Annotated[
        Text, _setting("--min-run", "TIME", "Time a job may run before it is preempted.")
    ] = None,
    lost_after: Annotated[
        Text, _setting("--lost-after", "TIME", "Silence after which a node is lost.")
    ] = None,
    keep_files: Annotated[
        Text, _setting("--keep-files", "TIME", "How long logs of ended jobs stay; forever, or 30d.")
    ] = None,
    keep_checkpoints: Annotated[
        Text, _setting("--keep-checkpoints", "TIME", "How long checkpoints of ended jobs stay.")
    ] = None,
    keep_history: Annotated[
        Text, _setting("--keep-history", "TIME", "How long ended jobs stay on record.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Start the cluster: a controller, and an agent for this machine's devices.

    What runs already is left alone; jobs that run are found again.

    \b
    Examples:
      rota up                     # every GPU of this machine, or its CPU cores
      rota up --devices cpu:4     # four CPU slots that behave as devices
      rota up --policy tiresias --min-run 30s
    """
    check_server()
    if database_url and secrets_in([database_url]):
        typer.echo(
            "rota: a password in --database-url shows in `ps` for a moment; `database_url` in config.yaml "
            "(mode 0600) or ROTA_DATABASE_URL does not",
            err=True,
        )
    from rota.engines.rota.devices import check_spec
    from rota.scheduler.policy import parse_policy
    from rota.server.config import choose
    from rota.wire.node_names import check_node

    flags = {
        "name": name, "policy": policy, "devices": devices, "node": node, "host": host, "port": port,
        "database_url": database_url, "knowledge": knowledge, "deadline": deadline, "min_run": min_run,
        "lost_after": lost_after, "keep_files": keep_files, "keep_checkpoints": keep_checkpoints,
        "keep_history": keep_history,
    }  # fmt: skip
    given = {key: value for key, value in flags.items() if value is not None}
    where = home().absolute()
    chosen = choose(where, given, None, config).config
    if policy:  # even if it will not decide: the advice on how to set it must work
        parse_policy(policy)
    if chosen.devices != "none":  # before a process runs that would have to be stopped
        check_spec(chosen.devices)
        if chosen.node:
            check_node(chosen.node)
    make_home(where)
    arguments = ["--home", str(where), "--flags", "-"]
    arguments += ["--config", str(config.absolute())] if config else []
    with only_one_starts(where):
        started = _ensure_controller(where, arguments, json.dumps(given))
        if not started:
            _warn_of_ignored(where, given, config)
        devices = chosen.devices if "devices" in given else _devices_of_before(where, chosen.devices)
        if devices != "none":
            _ensure_agent(where, devices, chosen.node, chosen.checkpoints, chosen.suspend_memory_gib)
    _report(where, started, as_json, policy)


def check_server() -> None:
    """Raises WorldError, before anything runs, if the packages of the controller are not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("sqlalchemy", "fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise WorldError(
            f"a live cluster needs rota[server], and this installation can simulate only: {missing[0]} is "
            "missing; `pip install '.[server]'` in the folder of Rota's sources adds it"
        )


def _devices_of_before(where: Path, chosen: str) -> str:
    """The devices that this machine joined with last, or `chosen` if it never did."""
    kept = where / AGENT_DEVICES
    try:
        return kept.read_text(encoding="utf-8").strip() or chosen
    except OSError:
        return chosen


def _warn_of_ignored(where: Path, given: dict[str, Any], file: Path | None) -> None:
    """Flags that differ from the running controller's."""
    from rota.server.config import choose, shown

    asked, runs = (choose(where, flags, None, file).config for flags in (given, flags_of_running(where)))
    ignored = [
        key
        for key in given
        if key != "policy" and shown(key, getattr(asked, key)) != shown(key, getattr(runs, key))
    ]
    if ignored:
        told = ", ".join(f"--{key.replace('_', '-')}" for key in ignored)
        typer.echo(f"rota: the controller was up already, without this {told}; `rota down` first", err=True)


def _ensure_controller(where: Path, arguments: list[str], flags: str) -> bool:
    """Start it unless it runs; true if it had to be started."""
    if controller_pid(where) is not None and answers(where):
        return False
    log = where / CONTROLLER_LOG
    started = Started("the controller", "rota.server.main", log, arguments, flags, one_thread())
    started.wait_for(lambda: answers(where))
    return True


def _ensure_agent(where: Path, devices: str, node: str, checkpoints: str, memory_gib: float) -> None:
    if agent_pid(where) is not None:
        return
    arguments = ["--home", str(where / "agent")]
    arguments += ["--controller", str(where / "controller.sock"), "--devices", devices]
    arguments += ["--node", node] if node else []
    arguments += ["--checkpoints", checkpoints] if checkpoints else []
    arguments += ["--suspend-memory-gib", str(memory_gib)] if memory_gib else []
    started = Started("the agent", "rota.engines.rota", where / AGENT_LOG, arguments)
    try:
        started.wait_for(lambda: ANSWERS in started.said() or UNKNOWN in started.said())
    except RotaError as error:
        raise type(error)(f"{error}; the controller runs, `rota down` stops it") from None
    if UNKNOWN in started.said():
        token = where / "agent" / "token"
        raise WorldError(
            "the agent runs, but its node is not known to this controller (is it another database?): "
            f"its jobs go on and no others start; `rota down`, remove {token} and `rota up` to let it join "
            "again, which ends the jobs that this controller does not know"
        )


def _report(where: Path, started: bool, as_json: bool, policy: str | None) -> None:
    with connect() as client:
        said = client.call("GET", "/v1/status")
        for warning in client.call("GET", "/v1/policy").get("warnings", ()):
            typer.echo(f"rota: {warning}", err=True)
    _tell_troubles(said["troubles"])
    if policy and _is_other(policy, said["policy"]):
        stays = f"policy {said['policy']} stays, as `rota policy set` or the first start left it"
        typer.echo(f"rota: {stays}; `rota policy set {policy}` changes it", err=True)
    if as_json:
        print_json({**said, "home": str(where), "started": started})
        return
    address = json.loads((where / CONTROLLER_FILE).read_text())["url"]
    verb = "is up" if started else "was up already"
    console().print(
        f"rota {verb}: {plural(said['nodes'], 'node')}, {plural(said['gpus'], 'device')}, "
        f"policy {said['policy']}"
    )
    console().print(f"  look   {address}  (dashboard and API; token in {where}/tokens/admin)")
    console().print(f"  state  {said['store']}")
    console().print("  next   rota submit --gpus 1 -- python train.py")


def _tell_troubles(troubles: Sequence[str]) -> None:
    """Print troubles, such as an address without TLS or a port that was taken, as warnings."""
    for trouble in troubles[:MOST_TROUBLES]:
        warn(trouble)
    if len(troubles) > MOST_TROUBLES:
        warn(f"{len(troubles) - MOST_TROUBLES} more; `rota status` tells all")


def _is_other(asked: str, runs: str) -> bool:
    """True if the policy that runs differs from the one asked for, apart from spelling."""
    from rota.scheduler.policy import parse_policy

    try:
        return asked != runs and str(parse_policy(asked)) != runs
    except RotaError:  # in any case it is not the one that runs
        return True


def down(
    kill_jobs: Annotated[
        bool, typer.Option("--kill-jobs", help="End all jobs first; otherwise they run on.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Stop the controller and this machine's agent; running jobs go on and are found again by `rota up`."""
    where = home().absolute()
    is_up = controller_pid(where) is not None or agent_pid(where) is not None or bool(recorded_url())
    alone = 0 if is_up else left_running(where)
    if kill_jobs and alone:
        raise WorldError(
            f"{plural(alone, 'job')} left running in {where}, and no controller to end "
            f"{'it' if alone == 1 else 'them'}; `rota up`, then `rota down --kill-jobs`"
        )
    ended, left = _end_all_jobs() if kill_jobs and is_up else (0, [])
    stopped = [
        name
        for name, pid in (("agent", agent_pid(where)), ("controller", controller_pid(where)))
        if pid is not None and stop(pid)
    ]
    if as_json:
        print_json({"stopped": stopped, "cancelled": ended, "left": left})
    elif stopped:
        console().print(
            f"stopped: {', '.join(stopped)}" + (f"; {plural(ended, 'job')} cancelled" if ended else "")
        )
    else:
        but = f" but {plural(alone, 'job')} left running, found again by `rota up`" if alone else ""
        console().print(f"nothing runs in {where}{but}", soft_wrap=True)
    if left:
        names = f"job {left[0]}" if len(left) == 1 else f"{len(left)} jobs ({', '.join(left[:5])} …)"
        warn(
            f"something of {names} may still run, on a machine that does not answer; it ends when its agent "
            "is back and the cluster is up"
        )


def _end_all_jobs() -> tuple[int, list[str]]:
    """Cancel all jobs and wait for their ends: their number, and those that have not ended in time."""
    from concurrent.futures import ThreadPoolExecutor

    from rota.client.paging import newest_jobs

    live = "PENDING,RUNNING,SUSPENDED,COMPLETING"
    with connect() as client:
        jobs = newest_jobs(client, {"state": live})
        waiting = [job["id"] for job in reversed(jobs) if job["state"] == "PENDING"]
        others = [job["id"] for job in jobs if job["state"] != "PENDING"]
        with ThreadPoolExecutor(CANCELLERS) as pool:  # the controller carries out concurrent calls together
            views: list[dict[str, Any]] = []
            for ids in (waiting, others):  # in this order no job starts in the place of one that ends
                views += pool.map(functools.partial(_cancel, client), ids)
        until, left = time.monotonic() + END_WITHIN_S, []
        for view in views:
            if view["state"] != "CANCELLED":
                wait = {"wait_s": max(0.0, until - time.monotonic())}
                view = client.call("GET", f"/v1/jobs/{view['id']}/wait", query=wait, timeout_s=60)
            if view["state"] == "COMPLETING":
                left.append(view["id"])
    return len(jobs), left


def _cancel(client: Client, id: str) -> dict[str, Any]:
    from rota.client import Refused

    body = {"reason": "rota down", "force": True}
    try:
        view: dict[str, Any] = client.call("POST", f"/v1/jobs/{id}/cancel", body)
    except Refused as refused:
        if refused.status != 409:
            raise
        return {"id": id, "state": "CANCELLED"}  # it has just ended by itself
    return view


def config(
    file: ConfigFile = None,
    rules: Annotated[
        bool, typer.Option("--failures", help="Show the rules of the failure classifier instead.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show every setting, its value and where that comes from: flag, environment, file or default."""
    from rota.server.config import MEANS, choose

    chosen = choose(home(), flags_of_running(home()), None, file)
    if rules:
        _show_rules(chosen.config, as_json)
    elif as_json:
        print_json(chosen.plain())
    else:
        for name, value, source in chosen.lines():
            typer.echo(_setting_text(name, MEANS.get((name, value), value), source))


def _setting_text(name: str, value: str, source: str) -> str:
    """One line; below it the entries of a setting that is a mapping or a list, as in the file."""
    from rota.server.config import ONLY_IN_FILE

    if name not in ONLY_IN_FILE or not value:
        return f"{name:<20} {value or '-':<32} {source}"
    entries = "".join(f"\n  {line}" for line in value.splitlines())
    return f"{name + ':':<53} {source}{entries}"


def flags_of_running(where: Path) -> dict[str, Any]:
    """The flags of the running controller; none if none runs."""
    if controller_pid(where) is None:
        return {}
    flags: dict[str, Any] = json.loads((where / CONTROLLER_FILE).read_text()).get("flags", {})
    return flags


def _show_rules(chosen: Config, as_json: bool) -> None:
    """The failure classifier: its rules, in the order of trial."""
    from rota.worlds.live.endings import rules_of

    rows = [
        {
            "name": rule.name,
            "cause": rule.cause.value,
            "codes": sorted(rule.codes),
            "signals": [signal.Signals(number).name for number in sorted(rule.signals)],
            "log": rule.log,
        }
        for rule in rules_of(chosen.failures)
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['cause']}: {row['name']}")
        for what in ("codes", "signals", "log"):
            if row[what]:
                said = row[what] if what == "log" else ", ".join(map(str, row[what]))
                typer.echo(f"    {what:<8} {said}")

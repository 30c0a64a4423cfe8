"""The controller's process: store, scheduler, API.  `rota up` starts it; it ends on SIGTERM, not on SIGHUP.

It leaves `controller.json` in ROTA_HOME (where it listens, its process) once it answers, and takes it away
when it ends in order.
"""

from __future__ import annotations

import argparse
import getpass
import json
import logging
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rota.errors import RotaError
from rota.model.atomic import replacing
from rota.model.growing import GrowingTable
from rota.model.hangup import open_logs_anew_on_hangup
from rota.model.readiness import READY, STOPPING, tell_manager
from rota.model.revision import full_version
from rota.scheduler.moments.replica import TracedState
from rota.server import config as configuration
from rota.server.agents import Agents
from rota.server.announcer import Announcer
from rota.server.answers.answers import Answers
from rota.server.api.app import ApiSettings, create_app
from rota.server.api.services import Services
from rota.server.caps import Caps, caps_of
from rota.server.cleanup import Tidier
from rota.server.clocks import Clock
from rota.server.commands import CommandOutcomes, Commands
from rota.server.config import Config, choose, without_password
from rota.server.connections import raise_descriptors
from rota.server.dashboard.feed import Feed
from rota.server.history import History
from rota.server.hooks.autoscale_setting import autoscale_of
from rota.server.hooks.autoscaler import Scaler
from rota.server.hooks.notices import Notices, targets_of
from rota.server.http_server import Address, Serving, in_the_clear
from rota.server.job_commands import JobCommands
from rota.server.jobs import Jobs
from rota.server.json_logs import set_up
from rota.server.logs import Logs
from rota.server.metrics import Metrics
from rota.server.nodes import Nodes
from rota.server.notifier import Notifier
from rota.server.overview import Overview
from rota.server.policies import Policies
from rota.server.policy.host import PolicyHost
from rota.server.policy.remote import Timeouts
from rota.server.records import JobRecords
from rota.server.roster import JobAccounts, StoredRoster
from rota.server.scheduler import MakeHost, Scheduler, SchedulerSettings
from rota.server.store.rows import JobQuery
from rota.server.store.store import Store
from rota.server.submissions import Submissions
from rota.server.tenants import in_force
from rota.server.tenants.accounts import TenantAccounts
from rota.server.tenants.layout import layout_of
from rota.server.terminals import Terminals
from rota.server.users import ADMIN, Users, first_up, token_files
from rota.server.views import job_view
from rota.wire.scaling import AutoscaleView
from rota.worlds.live.directives import Directives
from rota.worlds.live.endings import rules_of
from rota.worlds.live.inbox import Changed, Inbox
from rota.worlds.live.settings import LiveSettings

log = logging.getLogger(__name__)
CONTROLLER = "controller.json"
SOCKET = "controller.sock"
SWITCH_S = 0.0005
"""Seconds after which a busy thread yields to one with news; a tenth of the interpreter's default."""
LOCK_S = 5.0
"""Seconds that a new controller waits for the lock of one that was killed a moment ago."""
CLOCK = "clock"
"""Name of the fact from which the cluster's clock continues."""


@dataclass
class Running:
    """A controller at work in this process."""

    serving: Serving
    scheduler: Scheduler
    inbox: Inbox
    store: Store
    thread: threading.Thread
    answers: Answers
    tidier: Tidier
    notices: Notices
    scaler: Scaler | None = None

    def stop(self) -> None:
        """Make `serving.run` return; a successor may be started now, and waits until we have gone."""
        self.store.leave()
        self.serving.stop()

    def close(self) -> None:
        """End the scheduler and give the store free; jobs run on."""
        self.inbox.close()
        self.tidier.close()
        self.notices.close()
        if self.scaler is not None:
            self.scaler.close()
        self.thread.join(timeout=10)
        if self.scheduler.host is not None:
            self.scheduler.host.close()
        self.answers.close()
        self.store.close()


def start(home: Path, config: Config) -> Running:
    """Everything of a controller, the scheduler's thread running; `serving.run()` answers calls."""
    store = Store.open(config.database_url or None, home, lock_s=LOCK_S)
    roster = StoredRoster(store)
    clock = clock_of(store)
    first_up(home, store, roster, config, clock())
    in_force.begin(store, configuration.tenants_of(config), clock(), ADMIN)
    shared = Shared(
        store, roster, Inbox(), Directives(secrets.token_hex(8)), clock, {}, config.prices, token_files(home)
    )
    notifier, outcomes, metrics = Notifier(), CommandOutcomes(), Metrics()
    feed, nodes_changed = Feed(notifier), threading.Event()
    settings = scheduler_settings(config)
    notices = Notices(
        config.name, targets_of(config.notify), partial(told_of, store, clock), clock.epoch_unix_s
    )
    scheduler = Scheduler(
        store,
        host_maker(home, config),
        shared.inbox,
        shared.directives,
        shared.clock,
        shared.heard,
        settings,
        JobAccounts(roster),
        Announcer(feed, outcomes, metrics, notices, nodes_changed.set),
    )
    scale = autoscale_of(config.autoscale)
    scaler = None
    if scale is not None:
        scaler = Scaler(scale, config.name, store, scheduler.view, clock, home, nodes_changed)
    answers = Answers(scheduler, store, memory_gib=config.policy_memory_gib)
    answers.outlook.told = partial(feed.tell, ["starts"])
    caps = caps_of(config.caps)
    tidier = Tidier(store, roster, configuration.keep_of(config), clock.surely, caps)
    services = services_of(
        config.name, shared, scheduler, answers, tidier, notifier, outcomes, caps, notices, scaler
    )
    app = create_app(services, roster, metrics, ApiSettings(metrics_open=config.metrics_open), feed)
    serving = Serving(app, Address(config.host, config.port, home / SOCKET))
    shared.notes.extend(note for note in (serving.moved, in_the_clear(config.host)) if note)
    thread = threading.Thread(target=scheduler.run, name="scheduler", daemon=True)
    thread.start()
    tidier.start()
    notices.start()
    if scaler is not None:
        scaler.start()
    return Running(serving, scheduler, shared.inbox, store, thread, answers, tidier, notices, scaler)


def told_of(store: Store, clock: Clock, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
    """What notices say of jobs: what people see in lists."""
    jobs = {row: store.job(row) for row in set(rows)}
    return {
        row: job_view(job, None, clock.epoch_unix_s, clock()).model_dump(mode="json")
        for row, job in jobs.items()
        if job is not None
    }


@dataclass(frozen=True)
class Shared:
    """Objects that the API and the scheduler share."""

    store: Store
    roster: StoredRoster
    inbox: Inbox
    directives: Directives
    clock: Clock
    heard: dict[str, float]
    """Node -> moment at which its agent was last heard."""
    prices: Any = field(default_factory=dict)
    """Of a GPU-hour, as configured."""
    token_files: Mapping[str, Path] = field(default_factory=dict)
    """User -> the file in which the controller keeps that user's token."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the operator about this start."""


def services_of(
    name: str,
    shared: Shared,
    scheduler: Scheduler,
    answers: Answers,
    tidier: Tidier,
    notifier: Notifier,
    outcomes: CommandOutcomes,
    caps: Caps,
    notices: Notices,
    scaler: Scaler | None = None,
) -> Services:
    """The services behind the routes, for the cluster called `name`."""
    store, inbox, directives, clock, shown = (
        shared.store,
        shared.inbox,
        shared.directives,
        shared.clock,
        scheduler.view,
    )
    directives.on_change(lambda nodes: notifier.notify([("node", node) for node in nodes]))
    records = JobRecords(store, shown, clock, tidier)
    commands = Commands(store, inbox, outcomes, clock)
    logs = Logs(store, directives, notifier)
    terminals = Terminals(store, records, notifier)
    lost_after_s = scheduler.settings.live.lost_after_s
    agents = Agents(
        store,
        shared.roster,
        shown,
        inbox,
        directives,
        logs,
        terminals,
        notifier,
        tidier,
        clock,
        shared.heard,
        lost_after_s,
    )

    tenants = TenantAccounts(store, scheduler, commands, answers)

    def silent() -> list[str]:
        of_hook = scaler.troubles() if scaler is not None else ()
        return [*agents.silent(), *tenants.troubles(), *notices.troubles(), *of_hook]

    def autoscale() -> AutoscaleView | None:
        return None if scaler is None else scaler.view()

    return Services(
        submissions=Submissions(store, inbox, clock, answers, scheduler.accounts, caps),
        jobs=Jobs(store, records, answers, tidier, logs, notifier, clock, lambda: inbox.is_quiet),
        commands=JobCommands(store, records, commands, answers, caps),
        nodes=Nodes(store, shown, commands, tidier, shared.heard, clock),
        history=History(store, shown, records, clock, shared.prices),
        cluster=Overview(name, store, scheduler, tidier, silent, shared.notes, autoscale),
        policies=Policies(
            commands, answers, tenants.troubles, scheduler.settings.min_run_s, scheduler.settings.knowledge
        ),
        tenants=tenants,
        users=Users(
            shared.roster,
            shared.token_files,
            lambda why: inbox.put(Changed(why)),
            lambda user: bool(store.jobs(JobQuery(user=user, live=True, limit=1))),
        ),
        agents=agents,
        terminals=terminals,
    )


def host_maker(home: Path, config: Config) -> MakeHost:
    """Starts policies with the operator's deadline, their output in ROTA_HOME/logs."""

    def make(
        state: TracedState, table: GrowingTable, spec: str, memory: bytes | None, seed: int
    ) -> PolicyHost:
        limits = Timeouts(deadline_s=config.deadline, memory_gib=config.policy_memory_gib)
        return PolicyHost(
            state, table, spec, memory=memory, seed=seed, limits=limits, log_folder=home / "logs"
        )

    return make


def scheduler_settings(config: Config) -> SchedulerSettings:
    """The scheduler's part of the configuration."""
    caps, scale = caps_of(config.caps), autoscale_of(config.autoscale)
    live = LiveSettings(
        lost_after_s=config.lost_after,
        back_off=configuration.back_off_of(config),
        alike=config.retries_alike,
        others=config.retries_others,
        rules=rules_of(config.failures),
        trial_s=config.trial,
        idle_after_s=config.idle_after,
        suspend_idle=config.idle_action == "suspend",
        log_limit=lambda tenant: caps.of(tenant).log_mib << 20,
    )
    return SchedulerSettings(
        live=live,
        tenants=configuration.tenants_of(config),
        layout=layout_of(config.layout),
        knowledge=configuration.knowledge_of(config),
        min_run_s=config.min_run,
        autoscale=None if scale is None else scale.limits,
    )


def clock_of(store: Store) -> Clock:
    """The cluster's clock, continued from its record."""
    facts = store.facts()
    kept = facts.get(CLOCK)
    clock = Clock(float(facts["epoch_s"]), kept if isinstance(kept, dict) else None, store.last_moment())
    store.set_fact(CLOCK, clock.to_keep())
    return clock


def note(home: Path, running: Running, flags: Mapping[str, Any]) -> None:
    """Write where the controller is, and the flags it was started with, for local commands."""
    said = {
        "url": running.serving.url,
        "pid": os.getpid(),
        "version": full_version(),
        "user": getpass.getuser(),
        "started_s": time.time(),
        "flags": {name: without_password(value) for name, value in flags.items()},
    }
    with replacing(home / CONTROLLER) as partial:
        partial.write_text(json.dumps(said), encoding="utf-8")


def main(argv: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """Run until SIGTERM or SIGINT."""
    open_logs_anew_on_hangup()
    sys.setswitchinterval(SWITCH_S)
    parser = argparse.ArgumentParser(prog="rota-controller")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--flags", default="{}", help="settings of one start, as JSON; - reads them")
    given = parser.parse_args(argv)
    home: Path = given.home
    try:
        flags = json.loads(sys.stdin.read() if given.flags == "-" else given.flags)
        config = choose(home, flags, environment, given.config).config
        set_up(level=logging.getLevelNamesMapping()[config.log_level.upper()])
        raise_descriptors()
        running = start(home, config)
    except RotaError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _leave(home, running))
    teller = threading.Thread(target=_tell_when_ready, args=(home, running, flags), daemon=True)
    teller.start()
    try:
        running.serving.run()
    finally:
        (home / CONTROLLER).unlink(missing_ok=True)  # before the lock is free: later it is a successor's
        running.close()
    return 0


def _leave(home: Path, running: Running) -> None:
    """Remove the file that leads commands to this controller, then stop."""
    tell_manager(STOPPING)
    (home / CONTROLLER).unlink(missing_ok=True)
    running.stop()


def _tell_when_ready(home: Path, running: Running, flags: Mapping[str, Any]) -> None:
    running.serving.ready.wait()
    note(home, running, flags)
    tell_manager(READY)


if __name__ == "__main__":
    sys.exit(main())

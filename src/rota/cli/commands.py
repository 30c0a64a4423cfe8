"""The commands of the live cluster, and the section of the help of every command."""

from __future__ import annotations

from rota.cli.lazy import Lazy

_LIVE = "rota.cli.live"
LIVE: dict[str, Lazy] = {
    "submit": Lazy(f"{_LIVE}.submit:submit", "Submit a job: a program, a job file or an sbatch script."),
    "run": Lazy(f"{_LIVE}.submit:run", "Submit a job, show its output, and end as it ends."),
    "shell": Lazy(
        f"{_LIVE}.shell:shell",
        "Begin a job with a terminal, and work in it: a shell on devices of the cluster.",
    ),
    "ls": Lazy(f"{_LIVE}.jobs:ls", "List jobs: those waiting, running and suspended, or all."),
    "show": Lazy(f"{_LIVE}.show:show", "Show all that is known of a job."),
    "why": Lazy(f"{_LIVE}.show:why", "Say why a job waits, what would change that, and when it may start."),
    "logs": Lazy(f"{_LIVE}.logs:logs", "Print what a job wrote."),
    "attach": Lazy(f"{_LIVE}.logs:attach", "Follow a job's output until it ends."),
    "cancel": Lazy(f"{_LIVE}.acts:cancel", "Cancel jobs: notice, SIGTERM, grace, SIGKILL."),
    "hold": Lazy(f"{_LIVE}.acts:hold", "Keep waiting jobs from starting."),
    "release": Lazy(f"{_LIVE}.acts:release", "Let held jobs start again."),
    "suspend": Lazy(f"{_LIVE}.acts:suspend", "Take their devices from running jobs until `rota resume`."),
    "resume": Lazy(f"{_LIVE}.acts:resume", "Let suspended jobs run again."),
    "requeue": Lazy(f"{_LIVE}.acts:requeue", "Stop running jobs and let them wait for another attempt."),
    "accept": Lazy(f"{_LIVE}.acts:accept", "Take the later deadlines that jobs are offered."),
    "update": Lazy(f"{_LIVE}.update:update", "Change what a job asks for."),
    "nodes": Lazy(f"{_LIVE}.nodes:nodes", "List the machines and what they have."),
    "drain": Lazy(f"{_LIVE}.nodes:drain", "Let nodes take no new jobs, or take them again."),
    "tenants": Lazy(f"{_LIVE}.tenants:app", "List what each tenant is entitled to and has, or move it."),
    "top": Lazy(f"{_LIVE}.top:top", "Watch devices and jobs: what is granted, what is obtained."),
    "policy": Lazy(f"{_LIVE}.policy:app", "Show, swap or shadow the policy that decides."),
    "whatif": Lazy(f"{_LIVE}.whatif:whatif", "Predict when the jobs start and finish under other policies."),
    "history": Lazy(
        f"{_LIVE}.history:history",
        "List the jobs that ended; write them, and those that still run, as a trace.",
    ),
    "usage": Lazy("rota.cli.usage:usage", "Say where the GPU-hours went: of a trace, or of the cluster."),
    "events": Lazy(f"{_LIVE}.history:events", "List what happened on the cluster."),
    "up": Lazy(
        "rota.cli.service:up", "Start the cluster: a controller, and an agent for this machine's devices."
    ),
    "down": Lazy(
        "rota.cli.service:down",
        "Stop the controller and this machine's agent; running jobs go on and are found again by `rota up`.",
    ),
    "status": Lazy("rota.cli.status:status", "Show what runs here, and what an operator should know."),
    "doctor": Lazy(
        "rota.cli.doctor.command:doctor",
        "Say what this machine can do: devices, driver, clocks, disk, limits, controller, with advice.",
    ),
    "config": Lazy(
        "rota.cli.service:config",
        "Show every setting, its value and where that comes from: flag, environment, file or default.",
    ),
    "controller": Lazy(
        "rota.cli.foreground:controller", "Run the controller in the foreground, until SIGTERM; jobs run on."
    ),
    "agent": Lazy(
        "rota.cli.foreground:agent",
        "Let this machine take part in a cluster, in the foreground, until SIGTERM; jobs run on.",
    ),
    "user": Lazy(f"{_LIVE}.users:app", "Add, list and remove users."),
    "completion": Lazy(
        "rota.cli.completion:completion",
        "Print what a shell needs to complete commands, options, policies, and ids of live jobs.",
    ),
    "man": Lazy("rota.cli.manual:man", "Print the man page: this help, as `man` reads it."),
    "demo": Lazy(
        "rota.cli.demo.command:demo",
        "Run small training jobs on this machine under two policies, for a minute or so.",
    ),
}
"""Every command that speaks to a running cluster."""

DESCRIBING = ("submit", "run", "shell")
"""Commands that describe a job, and may have the words of a program behind their own."""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Jobs": (
        *(
            "submit",
            "run",
            "shell",
            "ls",
            "show",
            "why",
            "logs",
            "attach",
            "cancel",
            "hold",
            "release",
            "suspend",
        ),
        *("resume", "requeue", "accept", "update"),
    ),
    "Cluster": ("nodes", "drain", "tenants", "top", "policy", "whatif", "history", "usage", "events", "user"),
    "Service": (
        *("up", "down", "status", "doctor", "config", "controller", "agent", "completion"),
        *("man", "demo"),
    ),
    "Simulation": (
        *("simulate", "advise", "analyze", "trace", "snapshot", "replay", "figure", "promise"),
        *("systems", "fidelity"),
    ),
}
"""Section -> commands, in the order of the help."""

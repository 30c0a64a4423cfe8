"""Commands of other tools, and what they are called here: of Slurm, PBS, LSF and Kubernetes, and of habit."""

from __future__ import annotations

HERE = {
    "ls": ("squeue", "qstat", "bjobs", "queue", "jobs", "list", "ps"),
    "submit": ("qsub", "bsub", "launch"),
    "submit --sbatch FILE": ("sbatch",),
    "run": ("srun",),
    "shell": ("salloc", "interactive"),
    "cancel": ("scancel", "qdel", "bkill", "kill", "delete", "del", "rm", "remove", "abort"),
    "show": ("scontrol", "describe", "info", "inspect"),
    "attach": ("wait", "follow"),
    "logs": ("log", "tail"),
    "nodes": ("sinfo", "pbsnodes", "bhosts", "node", "hosts"),
    "history": ("sacct", "bhist"),
    "usage": ("sreport",),
    "user": ("sacctmgr", "users"),
    "drain": ("cordon",),
    "drain --undo": ("undrain", "uncordon"),
    "systems": ("policies",),
    "top": ("watch", "monitor"),
    "--version": ("version",),
}
"""What to type after `rota` -> commands that people know it by."""


def command_here(word: str) -> str:
    """What `word`, a command of another tool, is here; empty for any other word."""
    return next((ours for ours, theirs in HERE.items() if word.lower() in theirs), "")

"""Names of sbatch options: short forms, abbreviations and synonyms; and which options have no effect.

`docs/jobs.md` lists them.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from rota.errors import InputError

_MAIL = "Rota sends no mail; `rota attach JOB` waits for a job"
_NO_TASKS = "the script is started once on each node, and starts its own processes (torchrun, mpirun)"
_NO_SOCKETS = "cores are bound by the agent, whatever socket they are of"
_ITSELF = "it is for sbatch itself"
_FREQUENCY = "Rota changes no clock rates"
IGNORED: dict[str, str] = {
    "--partition": "there are no partitions; --node names nodes or their labels, --gpu-type types of devices",
    "--qos": "there are no qualities of service; use --priority",
    "--time-min": "a job gets its whole --time",
    "--open-mode": "files are appended to",
    "--exclusive": "GPUs are never shared unless a job asks for a --share; whole nodes are not handed out",
    "--oversubscribe": "use --share to share a GPU",
    "--constraint": "use --gpu-type, or --node for a label of nodes",
    "--prefer": "use --gpu-type, or --node for a label of nodes",
    "--batch": "use --node for a label of nodes",
    "--nodelist": "use --node, which names all nodes that will do",
    "--nodefile": "use --node, which names all nodes that will do",
    "--mail-type": _MAIL,
    "--mail-user": _MAIL,
    "--ntasks-per-gpu": _NO_TASKS,
    "--ntasks-per-socket": _NO_TASKS,
    "--ntasks-per-core": _NO_TASKS,
    "--distribution": _NO_TASKS,
    "--overcommit": _NO_TASKS,
    "--wait-all-nodes": _NO_TASKS,
    "--resv-ports": _NO_TASKS,
    "--gpu-bind": "each job sees its own GPUs only",
    "--gres-flags": "each job sees its own GPUs only",
    "--tres-bind": "each job sees its own GPUs only",
    "--cpu-bind": "cores are bound by the agent",
    "--hint": "cores are bound by the agent",
    "--mem-bind": _NO_SOCKETS,
    "--extra-node-info": _NO_SOCKETS,
    "--sockets-per-node": _NO_SOCKETS,
    "--cores-per-socket": _NO_SOCKETS,
    "--threads-per-core": _NO_SOCKETS,
    "--core-spec": _NO_SOCKETS,
    "--thread-spec": _NO_SOCKETS,
    "--mincpus": "use --cpus-per-task",
    "--contiguous": "the policy decides where the GPUs of a job are",
    "--spread-job": "the policy decides where the GPUs of a job are",
    "--use-min-nodes": "the policy decides where the GPUs of a job are",
    "--switches": "the policy decides where the GPUs of a job are",
    "--segment": "the policy decides where the GPUs of a job are",
    "--network": "Rota hands out GPUs, cores and memory only",
    "--cpu-freq": _FREQUENCY,
    "--gpu-freq": _FREQUENCY,
    "--power": _FREQUENCY,
    "--reboot": "nodes are not started again for a job",
    "--delay-boot": "nodes are not started again for a job",
    "--no-kill": "a job that loses a node is tried again on others",
    "--reservation": "there are no reservations by name",
    "--licenses": "Rota hands out GPUs, cores and memory only",
    "--tmp": "disk space is not handed out",
    "--profile": "`rota top` shows what a job uses",
    "--acctg-freq": "`rota top` shows what a job uses",
    "--wckey": "use --comment",
    "--extra": "use --comment",
    "--mcs-label": "a job is seen by whoever may see its tenant",
    "--x11": "`rota shell` has a terminal and no windows",
    "--wait": "`rota run --sbatch` waits",
    "--parsable": "`rota submit --quiet` prints the number only",
    "--verbose": _ITSELF,
    "--quiet": _ITSELF,
    "--ignore-pbs": _ITSELF,
    "--stepmgr": _ITSELF,
    "--get-user-env": "use --export=ALL",
    "--propagate": "limits are those of the agent",
    "--kill-on-invalid-dep": "a job whose dependency cannot be met is always cancelled",
}
"""Options without effect, and why, or what to use instead."""
_IN_CONTAINER = "start the container in the script (apptainer exec, podman run)"
_AS_SUBMITTED = "a job runs as the account of the user that submits it"
_STAGED = "there are no burst buffers; copy the data in the script"
REFUSED: dict[str, str] = {
    "--test-only": "it would submit nothing; use `rota submit --dry-run --sbatch FILE`",
    "--wrap": "there is a script already; write the command into it",
    "--clusters": "one cluster is spoken to; `--url` names another",
    "--container": _IN_CONTAINER,
    "--container-id": _IN_CONTAINER,
    "--export-file": "write `set -a; . FILE; set +a` into the script, or use --export=NAME,NAME",
    "--uid": _AS_SUBMITTED,
    "--gid": _AS_SUBMITTED,
    "--burst-buffer": _STAGED,
    "--burst-buffer-file": _STAGED,
    "--gpus-per-socket": "use --gpus-per-node",
    "--tres-per-task": "use --gpus-per-task and --cpus-per-task",
    "--help": _ITSELF,
    "--usage": _ITSELF,
    "--version": _ITSELF,
}
"""Options that are refused: without them another program would run than the script describes."""
SYNONYMS = {
    "--tasks-per-node": "--ntasks-per-node",
    "--workdir": "--chdir",
    "--share": "--oversubscribe",
    "--bb": "--burst-buffer",
    "--bbf": "--burst-buffer-file",
    "--cluster": "--clusters",
}
SHORT = {
    "-J": "--job-name", "-A": "--account", "-D": "--chdir", "-a": "--array", "-t": "--time", "-b": "--begin",
    "-G": "--gpus", "-N": "--nodes", "-n": "--ntasks", "-c": "--cpus-per-task", "-d": "--dependency",
    "-H": "--hold", "-p": "--partition", "-q": "--qos", "-o": "--output", "-e": "--error", "-i": "--input",
    "-C": "--constraint", "-w": "--nodelist", "-x": "--exclude", "-s": "--oversubscribe",
    "-m": "--distribution", "-O": "--overcommit", "-L": "--licenses", "-W": "--wait",
    "-v": "--verbose", "-Q": "--quiet", "-M": "--clusters", "-S": "--core-spec", "-B": "--extra-node-info",
    "-F": "--nodefile", "-k": "--no-kill", "-h": "--help", "-V": "--version",
}  # fmt: skip
WITHOUT_VALUE = frozenset({
    "--hold", "--requeue", "--no-requeue", "--overcommit", "--oversubscribe", "--wait", "--parsable",
    "--verbose", "--quiet", "--help", "--usage", "--version", "--test-only", "--ignore-pbs", "--contiguous",
    "--spread-job", "--use-min-nodes", "--reboot", "--stepmgr",
})  # fmt: skip
VALUE_BEHIND_EQUALS = frozenset({
    "--nice", "--exclusive", "--get-user-env", "--propagate", "--no-kill", "--x11",
})  # fmt: skip
"""Options whose value may be left out; if there is one, it follows an equals sign."""


def long_name(word: str, known: Collection[str]) -> str:
    """Long name of the option `word`: `-J`, a name in `known`, a synonym, or a prefix that only one name has.

    Raises InputError, without a place, if it is no option or could be several.
    """
    if word in SHORT:
        return SHORT[word]
    names = {**{name: name for name in known}, **SYNONYMS}
    if word in names:
        return names[word]
    meant = sorted({names[name] for name in names if name.startswith(word)} if len(word) > 2 else ())
    if len(meant) == 1:
        return meant[0]
    if meant:
        several = ", ".join(meant[:-1]) + f" or {meant[-1]}"
        raise InputError(f"{word} may be {several}; write the one that is meant")
    near = get_close_matches(word, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InputError(f"{word} is no option of sbatch{hint}")

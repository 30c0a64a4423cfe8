"""`rota submit`, `rota ls` and `rota systems` in their usual forms, without building the command line.

Standard library only, and little of it: the interpreter's own start is most of what these commands cost.
The whole command line handles and explains everything else, errors included.  If a submission has been sent
by then, it is sent again with its key, so that it makes one job.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from rota.cli.live.caller import here, pass_on, perhaps_submitted
from rota.errors import RotaError
from rota.wire.programs import why_not_here

TYPE_CHECKING = False  # `typing` would cost more time to load than the call takes
if TYPE_CHECKING:
    from typing import Any

    Fields = dict[str, Any]

SOCKET = "controller.sock"
LONGEST_SOCKET_PATH = 107
"""Bytes that fit into the address of a UNIX socket."""
TIMEOUT_S = 5.0
"""Seconds to wait for an answer; then the whole command line asks, which waits longer and explains."""
JOB_FILES = (".yaml", ".yml", ".json")
Left = list[str] | None
"""Words for the whole command line; None if nothing is left to do."""


class _NotQuick(Exception):  # noqa: N818
    """The command is not simple: the whole command line has to carry it out."""


def left_over(words: list[str]) -> Left:
    """Carry out `rota WORDS` if that is simple and succeeds; else return words for the whole command line."""
    command = _COMMANDS.get(words[0]) if words else None
    if command is None or "ROTA_URL" in os.environ or "_ROTA_COMPLETE" in os.environ:
        return words
    return command(words)


def _submit(words: list[str]) -> Left:
    """`rota submit [OPTION...] [--] PROGRAM ARGUMENT...`"""
    try:
        options, program = _parsed(words[1:], _SUBMIT)
        if not program or program[0].endswith(JOB_FILES):
            return words
        fields = _fields(options, program, *here())
        if why_not_here(program[0], fields["workdir"], fields["env"].get("PATH")):
            return words
    except (_NotQuick, RotaError, OSError):
        return words
    key = options["--key"][-1] if "--key" in options else os.urandom(16).hex()
    again = [words[0], "--key", key, *words[1:]]
    try:
        answer = _call("POST", "/v1/jobs", {"spec": fields, "key": key})
    except (_NotQuick, OSError, ValueError):
        return again
    except KeyboardInterrupt:
        print(f"rota: {perhaps_submitted(key)}", file=sys.stderr)
        raise
    for warning in answer["warnings"]:
        print(f"rota: {warning}", file=sys.stderr)
    ids = [job["id"] for job in answer["jobs"]]
    _say(number_of(ids) if "--quiet" in options else submitted(ids))
    return None


def _ls(words: list[str]) -> Left:
    """`rota ls [OPTION...]`"""
    from types import SimpleNamespace

    from rota.cli.live.job_rows import LIVE_STATES, jobs_text

    try:
        options, rest = _parsed(words[1:], _LS)
        if rest:
            return words
        query = {"limit": "1000"} if "--all" in options else {"limit": "1000", "state": LIVE_STATES}
        query |= {name[2:]: values[-1] for name, values in options.items() if values}
        rows = _call("GET", "/v1/jobs?" + "&".join(f"{name}={_plain(query[name])}" for name in query))
        text = jobs_text([SimpleNamespace(**row) for row in rows])
    except (_NotQuick, OSError, ValueError, AttributeError):
        return words
    _say(text.removesuffix("\n"))
    return None


def _systems(words: list[str]) -> Left:
    """`rota systems [NAME]`"""
    from rota.cli.system_index import index

    known = index()
    try:
        options, names = _parsed(words[1:], {"--json": False})
    except _NotQuick:
        return words
    if known is None or len(names) > 1 or not known.systems.keys() >= set(names):
        return words
    from rota.cli.systems import show_systems

    try:
        show_systems(names[0] if names else None, as_json="--json" in options)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return None


def number_of(ids: list[str]) -> str:
    """The number of the job that was submitted; of an array the number that its jobs share."""
    return ids[0].partition("_")[0]


def submitted(ids: list[str]) -> str:
    """The sentence about jobs that were submitted."""
    if len(ids) == 1:
        return f"submitted job {ids[0]}"
    from rota.model.units import plural

    return f"submitted {plural(len(ids), 'job')}: {ids[0]} to {ids[-1]}"


_COMMANDS: Mapping[str, Callable[[list[str]], Left]] = {
    "submit": _submit,
    "ls": _ls,
    "systems": _systems,
}
_SUBMIT = {
    **dict.fromkeys(("--quiet", "--hold"), False),
    **dict.fromkeys(("--key", "--gpus", "--time", "--name", "--priority", "--tenant", "--group"), True),
    **dict.fromkeys(("--array", "--comment", "--env"), True),
}
_LS = {"--all": False, "--tenant": True, "--user": True, "--name": True}
"""Option -> whether it takes a value."""
_SHORT = {"-q": "--quiet", "-e": "--env", "-a": "--all"}


def _parsed(words: list[str], known: Mapping[str, bool]) -> tuple[dict[str, list[str]], list[str]]:
    """Options with their values, and the words that are none.  Raises _NotQuick for all that is unusual."""
    options: dict[str, list[str]] = {}
    left = list(words)
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word == "--":
            return options, left
        name, equals, value = word.partition("=")
        name = _SHORT.get(name, name) if not equals else name
        if name not in known or (equals and not known[name]) or (known[name] and not equals and not left):
            raise _NotQuick
        values = options.setdefault(name, [])
        if known[name]:
            values.append(value if equals else left.pop(0))
    if any(word.startswith("-") for word in left):  # an option behind the program may be ours
        raise _NotQuick
    return options, left


def _fields(
    options: Mapping[str, list[str]], program: list[str], caller: Mapping[str, str], folder: str
) -> Fields:
    """The job that was asked for.  Raises _NotQuick and RotaError."""
    fields: Fields = {"workdir": folder, "env": pass_on(caller), "command": program}
    for option, values in options.items():
        if option == "--env":
            pairs = [value.partition("=") for value in values]
            if not all(name and equals for name, equals, _ in pairs):
                raise _NotQuick
            fields["env"] |= {name: value for name, _, value in pairs}
        elif option == "--hold":
            fields["hold"] = True
        elif option not in ("--key", "--quiet"):
            name, value = _field(option, values[-1].strip())
            fields[name] = value
    return fields


def _field(option: str, text: str) -> tuple[str, Any]:
    """Name and value of the field that an option sets."""
    if option == "--time":
        from rota.model.units import parse_duration

        return "time_s", parse_duration(text)
    if option in ("--gpus", "--priority"):
        if not (text.isascii() and text.isdigit()):
            raise _NotQuick
        return option[2:], int(text)
    return option[2:], text


def _call(method: str, path: str, body: object = None) -> Any:
    """Answer of the controller behind the socket in $ROTA_HOME.

    Raises OSError where nothing answers, _NotQuick and ValueError for an answer that is not a plain yes.
    """
    import json
    import socket

    from rota.wire import cluster_clock

    home = os.environ.get("ROTA_HOME") or os.path.expanduser("~/.rota")
    address, token = os.path.join(os.path.expanduser(home), SOCKET), os.environ.get("ROTA_TOKEN", "").strip()
    if len(os.fsencode(address)) > LONGEST_SOCKET_PATH or not token.isascii() or " " in token:
        raise _NotQuick
    data = b"" if body is None else json.dumps(body, allow_nan=False).encode()
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", "User-Agent: rota"]
    head += [f"Authorization: Bearer {token}"] * bool(token)
    head += ["Content-Type: application/json", f"Content-Length: {len(data)}"] * (body is not None)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(TIMEOUT_S)
        caller.connect(address)
        caller.sendall("\r\n".join([*head, "", ""]).encode() + data)
        answer = b"".join(iter(lambda: caller.recv(1 << 16), b""))
    status, _, rest = answer.partition(b"\r\n")
    headers, _, content = rest.partition(b"\r\n\r\n")
    if status.split()[1:2] not in ([b"200"], [b"201"]) or b"transfer-encoding" in headers.lower():
        raise _NotQuick
    for line in headers.decode("latin-1").splitlines():
        name, _, value = line.partition(":")
        if name.lower() == cluster_clock.HEADER.lower():
            cluster_clock.hear(value)
    return json.loads(content)


def _plain(text: str) -> str:
    """`text` itself.  Raises _NotQuick if it needs escaping in an address."""
    if not text.isascii() or not all(letter.isalnum() or letter in "._-/@," for letter in text):
        raise _NotQuick
    return text


def _say(text: str) -> None:
    """Print one piece of output; its reader may have closed the pipe."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

"""The line that an advice prints is one that the controller takes."""

from __future__ import annotations

import shlex
from pathlib import Path

from answers_play import site

from rota.cli.live import policy as command
from rota.knowledge.registry import Where, kinds
from rota.reports.advice.adopting import adoption
from rota.reports.advice.candidates import UNNAMED
from rota.scheduler.policy import parse_policy
from rota.server.answers.policy import try_policy
from rota.server.config import Config, knowledge_of
from rota.server.policy.messages import check_policy, import_policies


def test_every_candidate_can_be_set(tmp_path: Path) -> None:
    """What `PUT /v1/policy` does before it swaps: name, parameters and needs, one decision on trial."""
    import_policies()
    s = site(tmp_path)
    s.turn()
    s.submit(500.0, gpus=2)
    s.turn()
    verbs = {one.name or one.callback.__name__ for one in command.app.registered_commands if one.callback}
    for text in UNNAMED:
        lines = adoption(parse_policy(text), {"duration": "predicted"})
        for line, verb in ((lines.set_line, "set"), (lines.shadow_line, "shadow")):
            rota, group, said, name = shlex.split(line)
            assert (rota, group, said, name) == ("rota", "policy", verb, text)
            assert said in verbs
        assert str(check_policy(text, kinds(Where.LIVE))) == text
        try_policy(s.scheduler, s.estimator, text)
        if lines.knowledge_line:
            option, told = shlex.split(lines.knowledge_line)[2:]
            assert option == "--knowledge"
            assert knowledge_of(Config(knowledge=told)) == {"duration": "predicted"}

"""What a user types wrong to a live cluster: one sentence, exit code 2, and no call."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_play import Canned
from shell_play import rota

from rota.cli.commands import SECTIONS
from rota.cli.lazy import HERE

MORE = "; `rota {} -h` says more"
WRONG = [
    ("cancel", "missing argument 'JOB...'" + MORE.format("cancel")),
    ("show 17 18", "got unexpected extra argument(s) (18)" + MORE.format("show")),
    ("logs 17 --rank -1", "invalid value for '--rank' / '-r': "),
    ("ls --limit many", "invalid value for '--limit' / '-n': "),
    ("submit --gups 2 -- a", "no such option: --gups"),
    (
        "submit --gpus 0.5 -- a",
        "--gpus: '0.5' is no number of GPUs; expected how many, such as 2, or a range, "
        "such as 1:4; --share is the part of each",
    ),
    (
        "submit --partition gpu -- a",
        "no such option: --partition; there are no partitions; --node names nodes",
    ),
    ("run --dependency 17 -- a", "no such option: --dependency; here it is --after; `rota run -h` says more"),
    ("shell -N 2", "no such option: -N; here it is --gpus, on as many nodes as it takes; `rota shell -h`"),
    ("submit python train.py --lr 0.1", "no such option: --lr (Possible options: "),
    ("ls --lr", "no such option: --lr"),
    ("squeue", "no such command 'squeue'; here it is `rota ls`; `rota -h` says more"),
    ("queue", "no such command 'queue'; here it is `rota ls`; `rota -h` says more"),
    ("sbatch go.sh", "no such command 'sbatch'; here it is `rota submit --sbatch FILE`; `rota -h` says more"),
    ("kill 17", "no such command 'kill'; here it is `rota cancel`; `rota -h` says more"),
    ("user", "Usage: rota user"),
    ("sumbit", "no such command 'sumbit'. Did you mean 'submit'?"),
    ("--bogus", "no such option: --bogus"),
    ("show abc", "there is no job 'abc'; ids look like 17 or 17_3"),
    ("show ../17", "there is no job '../17'; ids look like"),
    ("cancel 17 17_", "there is no job '17_'; ids look like"),
    ("update 17 --priority high", "--priority: 'high' is no number; expected a whole number"),
    ("update 17 --priority 1000001", "priority=1000001 will not do: input should be less than or equal to"),
    ("update 17 --time 3", "--time: '3' is not a duration; expected a unit"),
    ("update 17 --time 0s", "time in seconds=0.0 will not do: input should be greater than 0"),
    ("update 17 --name a!b", "name='a!b' will not do: expected letters, digits and _ . @ : + / -"),
    ("update 17 --gpus -2", "--gpus: '-2' is no number of GPUs; expected how many"),
    ("update 17 --gpus-range 3:1", "--gpus-range: '3:1' is no range; expected FEWEST:MOST"),
    ("update 17 --gpus 8 --gpus-range 1:4", "gpus=8 is outside the range 1:4"),
    ("update 17 --deadline 1h", "--deadline: '1h' is not a moment; expected +2h"),
    ("submit --key= -- a", "--key: is empty, and would not tell submissions apart"),
    ("submit folder.yaml", "folder.yaml: cannot be read (Is a directory); expected a job file"),
    (
        "submit --sbatch folder.yaml",
        "folder.yaml: cannot be read (Is a directory); expected an sbatch script",
    ),
    ("ls --token-file folder.yaml", "folder.yaml: cannot be read (Is a directory); expected a token"),
    ("events --last x", "invalid value for '--last' / '-n': expected a valid integer; `rota events -h` says"),
    ("history --csv /", "--csv: / is a folder; expected the name of a file"),
    ("history --csv folder.yaml", "--csv: folder.yaml is a folder; expected the name of a file"),
    (
        "completion nosh",
        "invalid value for 'bash|zsh|fish': 'nosh' is not one of 'bash', 'zsh', 'fish'; `rota",
    ),
    ("ls --url nonsense", "'nonsense' is no address of a controller; expected http://HOST:PORT"),
]


def test_options_of_a_program_stand_behind_the_dashes(cluster: Canned) -> None:
    said = "options of the program stand behind `--`; `rota submit -h` says more"
    assert said in rota("submit", "python", "train.py", "--lr", "0.1").err
    assert "behind `--`" not in rota("ls", "--lr").err


def test_commands_of_other_tools_are_none_of_ours() -> None:
    """None is hidden by such a word, and what is named instead is one of them."""
    foreign = {word for words in HERE.values() for word in words}
    ours = {name for names in SECTIONS.values() for name in names}
    assert not foreign & ours
    assert {name.split()[0] for name in HERE} <= ours | {"--version"}


@pytest.mark.parametrize(("command", "sentence"), WRONG)
def test_one_sentence(
    command: str, sentence: str, cluster: Canned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.yaml").mkdir()
    done = rota(*command.split())
    assert (done.status, done.out, cluster.asked) == (2, "", [])
    if not sentence.startswith("Usage"):  # a group without a command is no mistake: it shows its help
        assert done.err.startswith("rota: " + sentence), done.err
        assert done.err.count("\n") == 1

"""What users answer to a later deadline, and how that is written."""

from __future__ import annotations

import pytest

from rota.errors import InputError
from rota.model.promises import Offer
from rota.worlds.simulated.answers import UserAnswers, parse_answers


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("1", UserAnswers()),
        ("1.5", UserAnswers(1.5)),
        (" 2:10m", UserAnswers(2.0, 600.0)),
        ("3:0s", UserAnswers(3.0)),
    ],
)
def test_what_people_write(text: str, answers: UserAnswers) -> None:
    assert parse_answers(text) == answers
    assert parse_answers(str(answers)) == answers


@pytest.mark.parametrize("text", ["", "yes", "0.5", "1.5:", "1.5:soon", "1..5", "2:-1m", "nan"])
def test_what_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--accept: .*does not say which later deadlines users accept"):
        parse_answers(text)


def test_an_offer_is_measured_from_submission() -> None:
    """Asked for 10 s after submission, offered 15 s after it."""
    offer = Offer(115.0, 130.0, "")
    assert UserAnswers(1.5).to(offer, 104.0, 100.0, 110.0) == (104.0, True)
    assert UserAnswers(1.4).to(offer, 104.0, 100.0, 110.0) == (104.0, False)
    assert UserAnswers(1.5, 26.0).to(offer, 104.0, 100.0, 110.0) == (130.0, True)
    assert UserAnswers(1.5, 27.0).to(offer, 104.0, 100.0, 110.0) == (130.0, False)

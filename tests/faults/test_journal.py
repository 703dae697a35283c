"""The journal notices everything that a server must not tell its clients."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.bench import journal as clocked
from tests.faults.bench.journal import Journal, Turn

IDS = ("chat", "question", "reply")


class Clock:
    """A clock that only moves when told to."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(clocked, "time", made)
    return made


@pytest.fixture
def kept() -> Journal:
    return Journal()


def begun(journal: Journal) -> Turn:
    turn = journal.add(Turn("alice", "alice-1", "Hello?"))
    journal.created(turn, *IDS)
    return turn


def final(content: str, status: str = "complete", **other: Any) -> dict[str, Any]:
    message = dict.fromkeys(clocked.LASTING, None)
    return {**message, "id": IDS[2], "content": content, "status": status, **other}


def test_a_turn_that_is_told_as_it_is_has_no_problem(kept: Journal) -> None:
    turn = begun(kept)
    kept.created(turn, *IDS)
    for text in ("Hel", "Hello", "Hel", "Hello!"):
        kept.heard(turn, text)
    kept.ended(turn, final("Hello!"), "Hello!")
    kept.ended(turn, final("Hello!", superseded_by="another"))
    assert (kept.problems, kept.acknowledged, turn.seen, turn.waited) == ([], 1, "Hello!", 0.0)


def test_other_ids_for_the_same_key(kept: Journal) -> None:
    kept.created(begun(kept), "chat", "question", "another")
    assert len(kept.problems) == 1


def test_two_texts(kept: Journal) -> None:
    turn = begun(kept)
    kept.heard(turn, "Hello")
    kept.heard(turn, "Hullo!")
    assert len(kept.problems) == 1


@pytest.mark.parametrize(
    ("content", "status", "delivered"),
    [
        ("Hello", "complete", None),  # longer text was delivered
        ("Hello!!", "complete", "Hello!"),  # shorter text was delivered
        ("Hullo!", "incomplete", None),
    ],
)
def test_a_final_message_that_is_not_what_was_delivered(
    kept: Journal, content: str, status: str, delivered: str | None
) -> None:
    turn = begun(kept)
    kept.heard(turn, "Hello!")
    kept.ended(turn, final(content, status), delivered)
    assert len(kept.problems) == 1


@pytest.mark.parametrize("change", [{"content": "Hi"}, {"status": "incomplete"}, {"seq": 4}])
def test_two_final_messages(kept: Journal, change: dict[str, Any]) -> None:
    turn = begun(kept)
    kept.ended(turn, final("Hello", seq=2))
    kept.ended(turn, {**final("Hello", seq=2), **change})
    assert len(kept.problems) == 1


def test_what_a_cut_reply_lost_is_told_in_seconds(kept: Journal, clock: Clock) -> None:
    turn = begun(kept)
    for text in ("One ", "One two ", "One two three ", "One two three four "):
        clock.now += 0.4
        kept.heard(turn, text)
    turn.broke()
    clock.now += 7
    kept.ended(turn, final("One two ", "incomplete"))
    assert turn.lost_seconds() == pytest.approx(0.4)
    assert turn.waited == pytest.approx(7)
    assert kept.problems == []

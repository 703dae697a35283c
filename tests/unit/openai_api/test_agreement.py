"""Whether the history that a client sends is that of a stored chat."""

import pytest

from conversations.openai_api.agreement import ComparedTurn, Likeness, essence, likeness, match


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("<think>so\nlong</think>Kiel.", "Kiel."),
        ("Kiel [1][2]【3†source】.", "Kiel ."),
        ('```json\n{"b": 1, "a": 2}\n```', '{"a": 2, "b": 1}'),
        ("<think>never closed. Kiel.", "<think>never closed. Kiel."),
        ("<think>a</think>K<reasoning>b</reasoning>iel", "Kiel"),
    ],
)
def test_agreement_ignores_text_that_clients_remove(told: str, kept: str) -> None:
    assert essence(told) == kept


def test_words_may_be_left_out_and_never_replaced() -> None:
    assert likeness("The balance is 900 today", "The balance is 900") is Likeness.RESEMBLING
    assert likeness("The balance is 900", "The balance is 5") is Likeness.DIFFERENT
    assert likeness("a b c", "c b a") is Likeness.DIFFERENT


def test_every_turn_must_agree() -> None:
    stored = [ComparedTurn("My PIN is 4711.", "Noted."), ComparedTurn("Thanks", "You are welcome.")]
    assert match(stored, stored) is not None
    assert match(stored, [ComparedTurn("I like tea.", "Noted."), stored[1]]) is None
    assert match(stored, stored[1:]) is None, "one short turn identifies nobody"
    edited = [stored[0], ComparedTurn("Thanks", "Something else.")]
    found = match(stored, edited)
    assert found is not None
    assert (found.rewritten, found.differs) == ("Something else.", True)
    assert match(stored, [ComparedTurn("My PIN is 4711.", "Never."), stored[1]]) is None
    longer = [*stored, ComparedTurn("Bye", "See you.")]
    for first in (ComparedTurn("I like tea", "Noted."), ComparedTurn("My PIN is 4711.", "Never.")):
        assert match(longer, [first, *longer[1:]]) is None


CHAT = [ComparedTurn(f"Question {number}", f"Answer {number}") for number in range(6)]
LONG = "The museum of the old harbour opens at nine. On Mondays it stays closed; tickets are sold until five o'clock."
MUSEUM = ComparedTurn("Opens?", LONG)
SUMMARY = ComparedTurn("Here is a summary of the conversation to date:\n\nSome questions.", "Understood.")


@pytest.mark.parametrize(
    ("stored", "sent", "made_up"),
    [
        pytest.param(CHAT, [SUMMARY, *CHAT[4:]], 1, id="a summary in place of four turns"),
        pytest.param(CHAT, [ComparedTurn(None, "In short: questions."), *CHAT[4:]], 1, id="a summary as an answer"),
        pytest.param(CHAT, [CHAT[0], CHAT[1], *CHAT[4:]], 2, id="a gap"),
        pytest.param(CHAT[:2], [SUMMARY, *CHAT[:2]], 1, id="a summary before the whole chat"),
        pytest.param([*CHAT, MUSEUM], [SUMMARY, MUSEUM], 1, id="a long answer"),
        pytest.param(
            [*CHAT, MUSEUM, CHAT[0]],
            [ComparedTurn("A summary", LONG), CHAT[0]],
            1,
            id="a summary in place of a question",
        ),
        pytest.param(CHAT, [SUMMARY, CHAT[5]], None, id="one short turn identifies no chat"),
        pytest.param(CHAT[3:], [SUMMARY, *CHAT[4:]], None, id="as many turns as the chat has: another person's"),
        pytest.param(CHAT, [ComparedTurn("Question 3", "42"), *CHAT[4:]], None, id="another answer to the question"),
        pytest.param([*CHAT, MUSEUM], [ComparedTurn("When?", LONG)], None, id="another question"),
        pytest.param(CHAT, [*CHAT[4:], SUMMARY], None, id="the last turn must agree"),
    ],
)
def test_turns_in_front_may_be_made_up(
    stored: list[ComparedTurn], sent: list[ComparedTurn], made_up: int | None
) -> None:
    found = match(stored, sent)
    assert (found.made_up if found else None) == made_up

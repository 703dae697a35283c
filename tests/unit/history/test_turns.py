"""Grouping messages into turns: none lost, none twice, in order, without gaps."""

from collections.abc import Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from chatmemory.text.turn_line import CUT_OFF
from memory.history.turns import Batch, StoredMessage, Turn, assistant_text, to_turns

STATUSES = ("complete", "incomplete", "failed", "cancelled", "deleted")


def row(
    seq: int, role: str, content: str, status: str = "complete", superseded: bool = False, line: str = ""
) -> StoredMessage:
    superseded_by = UUID(int=seq + 1) if superseded else None
    return StoredMessage(UUID(int=seq), seq, role, status, superseded_by, count_tokens(content), line, content)


def chat(*said: str) -> list[Turn]:
    """Make the turns of a chat in which user and assistant alternate, the user first."""
    return to_turns([row(i + 1, ("user", "assistant")[i % 2], text) for i, text in enumerate(said)])


@st.composite
def rows(draw: st.DrawFn) -> list[StoredMessage]:
    drafts = draw(
        st.lists(
            st.tuples(
                st.sampled_from(("user", "assistant")),
                st.sampled_from(STATUSES),
                st.booleans(),
                st.booleans(),
            ),
            max_size=12,
        )
    )
    first = draw(st.integers(1, 5))
    return [
        row(first + i, role, f"said-{first + i}" if has_text else "", status, superseded and role != "user")
        for i, (role, status, superseded, has_text) in enumerate(drafts)
    ]


def live(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    spoken = ("complete", "incomplete", "cancelled")
    return [m for m in messages if m.status in spoken and not m.superseded_by_id and m.content]


def test_a_question_and_its_reply_are_a_turn() -> None:
    [turn] = chat("Hello there", "Good morning!")
    assert (turn.from_seq, turn.through_seq, turn.user, turn.assistant) == (
        1,
        2,
        "Hello there",
        "Good morning!",
    )
    assert turn.tokens == count_tokens("Hello there") + count_tokens("Good morning!") + 2 * MESSAGE_OVERHEAD
    assert turn.last_assistant_id == UUID(int=2)
    assert not turn.cut_off


def test_a_greeting_is_a_turn_without_a_user() -> None:
    greeting, turn = to_turns([row(1, "assistant", "Welcome"), row(2, "user", "Hi"), row(3, "assistant", "So?")])
    assert (greeting.user, greeting.assistant, greeting.through_seq) == ("", "Welcome", 1)
    assert greeting.tokens == count_tokens("Welcome") + MESSAGE_OVERHEAD
    assert turn.from_seq == 2


def test_failed_and_superseded_replies_leave_only_their_place() -> None:
    [turn] = to_turns(
        [
            row(1, "user", "Hi"),
            row(2, "assistant", "first try", superseded=True, line="old"),
            row(3, "assistant", "broke", status="failed"),
            row(4, "assistant", "final", line="new"),
            row(5, "assistant", "half", status="failed"),
        ]
    )
    assert (turn.assistant, turn.from_seq, turn.through_seq) == ("final", 1, 5)
    assert turn.message_ids == (UUID(int=1), UUID(int=4))
    assert turn.last_assistant_id == UUID(int=4)
    assert turn.line == "new"


def test_a_reply_cut_short_counts_and_is_marked() -> None:
    for status in ("incomplete", "cancelled"):
        [turn] = to_turns([row(1, "user", "Hi"), row(2, "assistant", "As I was", status=status)])
        assert turn.cut_off
        assert assistant_text(turn) == f"As I was\n{CUT_OFF}"
    [turn] = to_turns([row(1, "user", "Hi"), row(2, "assistant", "", status="cancelled")])
    assert not turn.cut_off
    assert (assistant_text(turn), turn.last_assistant_id) == ("", None), "before its first word"


def test_a_forgotten_turn_is_an_empty_span() -> None:
    [turn] = to_turns([row(1, "user", "", status="deleted"), row(2, "assistant", "", status="deleted")])
    assert (turn.from_seq, turn.through_seq, turn.tokens, turn.message_ids) == (1, 2, 0, ())


def test_counts_decide_where_texts_were_not_loaded() -> None:
    ask = StoredMessage(UUID(int=1), 1, "user", "complete", None, token_count=7)
    reply = StoredMessage(UUID(int=2), 2, "assistant", "cancelled", None, token_count=5)
    [turn] = to_turns([ask, reply])
    assert (turn.tokens, turn.cut_off, len(turn.message_ids)) == (12 + 2 * MESSAGE_OVERHEAD, True, 2)


@given(rows())
def test_spans_join_without_holes_and_every_live_text_is_in_one_turn(messages: list[StoredMessage]) -> None:
    turns = to_turns(messages)
    covered = [seq for turn in turns for seq in range(turn.from_seq, turn.through_seq + 1)]
    assert covered == [message.seq for message in messages]
    starts = [m.seq for i, m in enumerate(messages) if i == 0 or m.role == "user"]
    assert [turn.from_seq for turn in turns] == starts, "a user's message begins a turn"
    texts = [text for turn in turns for text in (turn.user, *turn.assistant.split("\n\n")) if text]
    assert texts == [message.content for message in live(messages)]
    assert [i for turn in turns for i in turn.message_ids] == [message.id for message in live(messages)]


def test_a_giant_turn_comes_clipped_and_alone() -> None:
    giant, after = chat("word " * 3000, "reply " * 50, "Hi", "Hello")
    batch = Batch.of([giant, after], 500)
    [shown] = batch.shown
    assert batch.turns == (giant,)
    assert 400 < shown.tokens <= 500
    assert shown.assistant == giant.assistant  # the short side is kept whole
    assert "left out" in shown.user
    assert shown.message_ids == giant.message_ids


def test_silent_turns_do_not_hide_a_giant() -> None:
    silent = to_turns([row(1, "user", "", status="deleted")])
    [_, shown] = Batch.of([*silent, *chat("word " * 3000)], 500).shown
    assert 0 < shown.tokens <= 500


@given(st.lists(st.integers(0, 120), min_size=1, max_size=8), st.integers(0, 300))
def test_a_batch_is_the_oldest_turns_that_fit_and_at_least_one(lengths: list[int], limit: int) -> None:
    turns = chat(*["ab " * length for length in lengths])
    batch = Batch.of(turns, limit)
    assert batch.turns == tuple(turns[: len(batch.turns)]) != ()
    sides = sum((turn.user_tokens > 0) + (turn.assistant_tokens > 0) for turn in batch.shown)
    assert sum(turn.tokens for turn in batch.shown) <= max(limit, sides * MESSAGE_OVERHEAD)
    assert len(batch.turns) == len(turns) or sum(turn.tokens for turn in turns[: len(batch.turns) + 1]) > limit

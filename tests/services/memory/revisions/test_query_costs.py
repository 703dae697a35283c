"""Restoring or stepping back costs in proportion to what came after, not to the chat; and long counts block nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.chats import FOLD, make_chat
from benchmarks.speech import Exchange
from chatmemory.errors import ChatBusy
from chatmemory.llm.protocol import Reply
from conversations.message_changes import edit_message, forget_message
from conversations.models import Chat, Message
from conversations.replies import finish
from conversations.replies.begin import BegunTurn, begin_regeneration
from conversations.replies.finish import Ending
from memory import counters, services
from memory.counters import COUNTERS, Tally
from memory.revisions.restore import restore
from tests.support.factories import add_turn, brief_of, make_user
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import assert_sound, chat_of, run, turn

pytestmark = pytest.mark.exhaustive

SAID = (Exchange("How so?", "It is so.", 3, 4, "It is so.", "User: How so? / Assistant: It is so."),)
STEP = 10

on_sqlite = pytest.mark.skipif(
    "connection.vendor != 'sqlite'", reason="SQLite tells how much work a statement is; its one writer waits"
)


class Work:
    """Steps of SQLite's virtual machine, ten instructions each; `waited` counts those that made other writers wait."""

    steps = waited = 0


@contextmanager
def working() -> Iterator[Work]:
    """Count SQLite's work in the block."""
    work = Work()

    def step() -> int:
        work.steps += 1
        work.waited += connection.in_atomic_block
        return 0

    connection.ensure_connection()
    connection.connection.set_progress_handler(step, STEP)
    try:
        yield work
    finally:
        connection.connection.set_progress_handler(None, 0)


def long_chat(turns: int, **fields: Any) -> Chat:
    return make_chat(make_user(), turns, said=SAID, records=False, **fields)


def at(chat: Chat, seq: int) -> Message:
    return Message.objects.get(chat=chat, seq=seq)


@on_sqlite
@pytest.mark.django_db
def test_restoring_costs_what_lies_after_the_version() -> None:
    spent = []
    for turns in (5 * FOLD, 200 * FOLD):
        chat = long_chat(turns)
        version = brief_of(chat).version - 3
        with CaptureQueriesContext(connection) as queries, working() as work:
            restore(chat, version)
        assert brief_of(chat).unfolded_turns == 3 * FOLD
        spent.append((len(queries), work.steps))
    (few, short), (many, long) = spent
    assert few == many
    assert long <= 1.2 * short


@on_sqlite
@pytest.mark.django_db
def test_stepping_back_costs_what_lies_after_the_change() -> None:
    spent = []
    for turns in (5 * FOLD, 200 * FOLD):
        chat = long_chat(turns)
        with working() as work:
            edit_message(chat, at(chat, chat.last_seq - 4 * FOLD).pk, "It was so.")
        assert brief_of(chat).unfolded_turns == 3 * FOLD
        spent.append(work.steps)
    assert spent[1] <= 1.2 * spent[0]


@on_sqlite
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seq", [3, 201, 5999])
def test_nobody_waits_while_a_long_backlog_is_counted(seq: int) -> None:
    """Forget a message in a chat that was never folded."""
    waited, spent = [], []
    for turns in (150, 3000):
        chat = long_chat(turns, unfolded=turns)
        message = at(chat, min(seq, chat.last_seq - 1))
        with working() as work:
            forget_message(chat.pk, message.pk)
        waited.append(work.waited)
        spent.append(work.steps)
        exact = brief_of(chat)
        counters.recount(exact)
        assert [getattr(exact, name) for name in COUNTERS] == [
            getattr(brief_of(chat), name) for name in COUNTERS
        ]
    assert waited[1] <= 1.5 * waited[0]
    assert spent[1] >= 5 * spent[0], "else there was nothing to count"


# Counts made before the transaction are still right inside it, despite changes in between


def nothing(chat: Chat) -> None:
    pass


def another_turn(chat: Chat) -> None:
    add_turn(chat, *turn(31))


def fold(chat: Chat) -> None:
    run(chat)


def another_edit(chat: Chat) -> None:
    edit_message(chat, at(chat, 15).pk, "T80 stands in the place of what was said.")


def restored(chat: Chat) -> None:
    run(chat)
    restore(chat, 2)


def answered_again(chat: Chat) -> None:
    """Start to regenerate the newest reply: its turn does not count until the new reply is finished."""
    begun = begin_regeneration(chat.owner, chat.pk, at(chat, chat.last_seq).pk, None)
    assert isinstance(begun, BegunTurn)
    again.append(begun)


again: list[BegunTurn] = []
MEANWHILE = [nothing, another_turn, fold, another_edit, restored, answered_again]


@pytest.mark.django_db
@pytest.mark.usefixtures("sound")
@pytest.mark.parametrize("is_folded", [False, True])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("seq", [1, 2, 25, 40, 59, 60])
def test_counters_are_exact_whatever_happened_since_they_were_counted(
    seq: int,
    meanwhile: Callable[[Chat], None],
    is_folded: bool,
    model: KeepingModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counters, "PIECE", 4)
    chat = chat_of(30)
    if is_folded:
        run(chat)
    counting = services.count_beforehand

    def counted(chat_id: UUID, at_seq: int) -> Tally | None:
        monkeypatch.setattr(services, "count_beforehand", counting)
        found = counting(chat_id, at_seq)
        assert found is not None
        meanwhile(chat)
        return found

    monkeypatch.setattr(services, "count_beforehand", counted)
    if (meanwhile, seq) == (answered_again, 59):
        with pytest.raises(ChatBusy):  # the question of the reply that is being written
            forget_message(chat.pk, at(chat, seq).pk)
    else:
        forget_message(chat.pk, at(chat, seq).pk)
        assert_sound(chat)
    while again:
        finish.finish(again.pop().pending, "T30 again.", Ending.of(Reply("complete")))
    assert_sound(chat)

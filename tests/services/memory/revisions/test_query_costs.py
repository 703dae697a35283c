"""Restoring or stepping back costs in proportion to what came after, not to the chat; and long counts block nobody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.chats import FOLD, make_chat
from benchmarks.speech import Exchange
from conversations.message_changes import edit_message, forget_message
from conversations.models import Chat, Message
from memory.briefs import unfolded
from memory.revisions.by_hand import restore
from tests.support.factories import brief_of, make_user

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
        assert unfolded(brief_of(chat)).turns == 3 * FOLD
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
        assert unfolded(brief_of(chat)).turns == 3 * FOLD
        spent.append(work.steps)
    assert spent[1] <= 1.2 * spent[0]


@on_sqlite
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seq", [3, 201, 5999])
def test_a_change_in_a_long_backlog_costs_no_more(seq: int) -> None:
    """Forget a message in a chat that was never folded."""
    spent = []
    for turns in (300, 3000):
        chat = long_chat(turns, unfolded=turns)
        message = at(chat, min(seq, chat.last_seq - 1))
        with working() as work:
            forget_message(chat.pk, message.pk)
        spent.append(work.steps)
        assert brief_of(chat).due
    assert spent[1] <= 1.5 * spent[0]

"""Restoring or stepping back costs in proportion to what came after, not to the chat."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from benchmarks.chats import FOLD, make_chat
from benchmarks.speech import Exchange
from conversations.message_changes import edit_message
from conversations.models import Chat, Message
from memory.briefs import unfolded
from memory.revisions.by_hand import restore
from tests.support.factories import brief_of, make_user

pytestmark = [pytest.mark.exhaustive, pytest.mark.nightly]

SAID = (Exchange("How so?", "It is so.", 3, 4, "It is so.", "User: How so? / Assistant: It is so."),)
STEP = 10


class Work:
    """Steps of SQLite's virtual machine, ten instructions each."""

    steps = 0


@contextmanager
def working() -> Iterator[Work]:
    """Count SQLite's work in the block."""
    work = Work()

    def step() -> int:
        work.steps += 1
        return 0

    connection.ensure_connection()
    connection.connection.set_progress_handler(step, STEP)
    try:
        yield work
    finally:
        connection.connection.set_progress_handler(None, 0)


def restores(chat: Chat) -> None:
    restore(chat, brief_of(chat).version - 3)


def edits(chat: Chat) -> None:
    edit_message(chat, Message.objects.get(chat=chat, seq=chat.last_seq - 4 * FOLD).pk, "It was so.")


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="SQLite tells how much work a statement is")
@pytest.mark.django_db
@pytest.mark.parametrize("act", [restores, edits])
def test_restore_cost_depends_on_turns_after_version(act: Callable[[Chat], None]) -> None:
    spent = []
    for turns in (5 * FOLD, 200 * FOLD):
        chat = make_chat(make_user(), turns, said=SAID, records=False)
        with working() as work:
            act(chat)
        assert unfolded(brief_of(chat)).turns == 3 * FOLD
        spent.append(work.steps)
    assert spent[1] <= 1.2 * spent[0]

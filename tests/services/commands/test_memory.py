"""`memory`: the command that shows operators the chats and their memory, without a browser."""

import io
import logging
import sys
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import OutputWrapper

from conversations.management import prompts
from conversations.models import Chat
from memory.models import ConversationBrief
from memory.revisions.by_hand import pause_updates
from tests.admin.rows import add_revision
from tests.support.commands import refusal
from tests.support.factories import add_turns, make_chat, make_user

pytestmark = pytest.mark.django_db


def memory(*args: Any) -> list[str]:
    """The lines that the command prints."""
    out = io.StringIO()
    call_command("memory", *map(str, args), stdout=out, stderr=io.StringIO())
    return out.getvalue().splitlines()


def listed(*args: Any) -> list[str]:
    """The ids of the listed chats, in order."""
    return [line.split()[0] for line in memory(*args)[1:]]


@pytest.fixture
def two_chats() -> tuple[Chat, Chat]:
    """Alice's chat of two turns with a summary, and a chat of Bob's without messages."""
    first = make_chat(make_user("alice"), title="My order\x1b[31m AB-1234")
    add_turns(first, [("Where is it?", "On its way."), ("Thanks", "Gladly.")])
    add_revision(first, 1, "An order is on its way.", through=2)
    second = make_chat(make_user("bob"), policy="interval")
    return first, second


def test_chats_are_listed_with_their_sizes(two_chats: tuple[Chat, Chat]) -> None:
    first, second = two_chats
    headings, newest, oldest = memory()
    assert headings.split() == ("chat owner messages tokens summary unsummarized status title".split())
    assert newest.split()[:5] == [str(second.pk), "bob", "0", "0", "none"]
    assert oldest.startswith(f"{first.pk}  alice  4 ")
    assert "version 1, 40" in oldest
    assert oldest.endswith("My order\\x1b[31m AB-1234")


def test_the_list_is_narrowed(two_chats: tuple[Chat, Chat]) -> None:
    oldest = two_chats[0]
    first, second = (str(chat.pk) for chat in two_chats)
    assert listed() == [second, first]
    assert listed("--owner", "alice") == [first]
    assert listed("--search", "order") == [first]
    assert listed("--limit", "1") == [second]
    assert listed("--state", "update") == listed("--state", "failing") == []
    ConversationBrief.objects.filter(pk=oldest).update(due=True)
    assert listed("--state", "update") == [first]
    assert "Update queued" in memory("--state", "update")[1]
    ConversationBrief.objects.filter(pk=oldest).update(attempts=2, last_error={"code": "refused"})
    assert (listed("--state", "update"), listed("--state", "failing")) == ([], [first])
    assert "Failing (2 attempts)" in memory("--state", "failing")[1]
    pause_updates(oldest, None)
    assert listed("--state", "paused") == [first]
    assert "  Updates paused  " in memory("--state", "paused")[1]


def test_memory_command_shows_the_memory(two_chats: tuple[Chat, Chat]) -> None:
    first, second = two_chats
    add_revision(first, 2, "It has arrived.", through=4)
    told = "\n".join(memory(first.pk))
    for words in (
        "of alice",
        "Messages    4, ",
        "Summary     version 2, 40 tokens, covers messages 1–4",
        "Next prompt ",
    ):
        assert words in told
    assert told.endswith("Summary\nIt has arrived.")
    pause_updates(first, None)
    paused = next(line for line in memory(first.pk) if line.startswith("Paused"))
    assert paused.endswith("UTC, by staff")
    assert "without title, of bob" in memory(second.pk)[0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--owner nobody", "There is no user 'nobody'."),
        ("--limit 0", "--limit takes a number from 1 on."),
        ("nonsense", "There is no chat nonsense."),
        ("019a0000-0000-7000-8000-000000000000", "There is no chat 019a0000-0000-7000-8000-000000000000."),
    ],
)
def test_memory_command_reports_bad_arguments(arguments: str, told: str) -> None:
    assert refusal("memory", *arguments.split()) == told


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_logs_go_above_a_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with prompts.progress_bar("Working", 2, OutputWrapper(terminal)) as advance:
        advance(1)
        logging.getLogger("chatmemory.tests").warning("something happened")
    shown = terminal.getvalue()
    assert "Working" in shown
    (line,) = [one for one in shown.split("\n") if "something happened" in one]
    assert line.rpartition("\r")[2].replace("\x1b[2K", "").startswith('{"event": "something happened"')

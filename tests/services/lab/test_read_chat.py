"""A stored chat as input of a replay: the same as its export, cut to its newest turns, without its title."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from django.utils import timezone

from chatmemory.llm.protocol import ToolCall
from conversations.interchange.from_rows import chat_values, message_values
from conversations.interchange.read import export_chat_text, read_chats
from conversations.interchange.to_rows import import_chat
from conversations.models import Chat, Message, Status
from conversations.sample import SAMPLE
from memory.lab.comparison import read_chat
from memory.lab.comparison.read_chat import start_of, stored_talk
from memory.lab.conversation import Exchange, Round, talk_of
from tests.support.factories import add_turn, make_chat, make_user

pytestmark = pytest.mark.django_db


def exchanges(chat: Chat) -> list[tuple[str, str]]:
    return [(one.question, one.reply) for one in stored_talk(chat)[0].exchanges]


def test_it_is_what_replay_makes_of_the_export() -> None:
    tools = [
        {"role": "user", "content": "What is the weather?"},
        {"role": "tool", "content": "sunny, 21 degrees"},
        {"role": "assistant", "content": "It is sunny."},
    ]
    (sample,) = read_chats(SAMPLE.read_text())
    (called,) = read_chats(f'{{"messages": {tools}}}'.replace("'", '"'))
    chat = import_chat(make_user(), replace(sample, messages=(*sample.messages, *called.messages)))
    (exported,) = read_chats("".join(export_chat_text(chat_values(chat), message_values(chat))))
    talk, turns = stored_talk(chat)
    assert talk == replace(talk_of(exported, read_chat.NAME), facts=())
    assert len(talk.exchanges) == turns > 40
    assert talk.exchanges[-1].tool_tokens > 0


def test_calls_and_outputs_of_tools_are_played() -> None:
    called = {"role": "assistant", "content": "Let me look.", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}},
        {"id": "b", "type": "custom", "custom": {"name": "run", "input": "SELECT 1"}},
    ]}  # fmt: skip
    said = [
        {"role": "user", "content": "Where is it?"},
        called,
        {"role": "tool", "tool_call_id": "a", "content": "Lima"},
        {"role": "tool", "tool_call_id": "b", "content": "1"},
        {"role": "assistant", "content": "In Lima."},
        {"role": "user", "content": "And now?"},
        called,
    ]
    chat = import_chat(make_user(), read_chats(json.dumps({"messages": said}))[0])
    talk, _ = stored_talk(chat)
    one, waiting = talk.exchanges
    calls = (ToolCall("a", "find", "{}"), ToolCall("b", "run", "SELECT 1", is_custom=True))
    assert one.rounds == (Round("Let me look.", calls, (("a", "Lima"), ("b", "1"))),)
    assert (one.question, one.reply, one.tool_tokens) == ("Where is it?", "In Lima.", 0)
    assert (waiting.rounds, waiting.reply) == ((), "Let me look.")
    assert waiting.tool_tokens > 0


def test_what_does_not_stand_is_not_played() -> None:
    chat = make_chat(title="Said in private")
    replaced = add_turn(chat, "u1", "wrong")
    better = add_turn(chat, "u2", "a2")
    Message.objects.filter(pk=replaced.pk).update(superseded_by=better)
    add_turn(chat, "u3", "half an ans", Status.INCOMPLETE)
    add_turn(chat, "u4", "broken", Status.FAILED)
    forgotten = add_turn(chat, "u5", "a5")
    Message.objects.filter(pk=forgotten.pk).update(
        content="", status=Status.DELETED, edited_at=timezone.now()
    )
    add_turn(chat, "u6", "a6")
    add_turn(chat, "Is anybody there?", None)
    talk, _ = stored_talk(chat)
    assert talk.name == read_chat.NAME
    assert talk.exchanges == (
        Exchange("u1\n\nu2", "a2"),
        Exchange("u3", "half an ans", cut_off=True),
        Exchange("u4\n\nu5\n\nu6", "a6"),
    )


def test_of_a_long_chat_the_newest_turns_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = make_chat()
    for number in range(1, 8):
        add_turn(chat, f"u{number}", f"a{number}")
    monkeypatch.setattr(read_chat, "MOST_TURNS", 3)
    assert exchanges(chat) == [("u5", "a5"), ("u6", "a6"), ("u7", "a7")]
    assert stored_talk(chat)[1] == 7


def test_an_empty_chat_is_an_empty_talk() -> None:
    talk, turns = stored_talk(make_chat())
    assert (talk.exchanges, turns) == ((), 0)


@pytest.mark.parametrize(
    ("tokens", "start"),
    [
        ([1] * 6, 1),  # everything
        ([1] * 1000, 1),  # as many turns as allowed
        ([1] * 1002, 3),  # one turn too many
        ([0, 0, 250_000, 250_000, 1, 1], 5),  # with the turn before, too many tokens
        ([0, 0, 249_999, 249_999, 1, 1], 1),
        ([1, 1, 600_000, 600_000], 3),  # at least one turn
    ],
)
def test_it_begins_where_turns_or_tokens_run_out(tokens: list[int], start: int) -> None:
    rows = [(seq, "user" if seq % 2 else "assistant", count) for seq, count in enumerate(tokens, start=1)]
    assert start_of(reversed(rows)) == start

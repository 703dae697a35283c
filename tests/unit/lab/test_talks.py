"""Files of all formats become conversations: who answered what, with which tool messages and annotations."""

import json
from typing import Any

import pytest

from conversations.interchange.read import read_chats
from memory.lab.conversation import Conversation, Exchange, KnownFact, talk_of


def talk(messages: list[dict[str, Any]], **more: Any) -> Conversation:
    (chat,) = read_chats(json.dumps({"messages": messages, **more}))
    return talk_of(chat, "a talk")


def said(*texts: str) -> list[dict[str, Any]]:
    """Make messages from texts whose first letter gives the role: u, a, s or t."""
    roles = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}
    return [{"role": roles[text[0]], "content": text} for text in texts]


@pytest.mark.parametrize(
    ("texts", "exchanges"),
    [
        (("u1", "a1", "u2", "a2"), [("u1", "a1"), ("u2", "a2")]),
        (("u1", "u2", "a1", "a2", "u3", "a3"), [("u1\n\nu2", "a1\n\na2"), ("u3", "a3")]),  # one side in a row
        (("s", "a0", "u1", "a1"), [("u1", "a1")]),  # a greeting answers nothing
        (("u1", "a1", "u2"), [("u1", "a1")]),  # unanswered
        (("u1",), []),
        (("a1",), []),
        ((), []),
    ],
)
def test_questions_meet_their_replies(texts: tuple[str, ...], exchanges: list[tuple[str, str]]) -> None:
    found = talk(said(*texts)).exchanges
    assert [(one.question, one.reply) for one in found] == exchanges


def test_blank_messages_say_nothing_and_instructions_are_the_leading_system_message() -> None:
    found = talk([*said("s: be brief"), {"role": "user", "content": " \n"}, *said("u1", "a1")])
    assert (found.instructions, found.exchanges) == ("s: be brief", (Exchange("u1", "a1"),))


def test_talks_skip_failed_or_replaced_replies() -> None:
    own = {"format": "chatmemory/1"}
    messages = [
        {"seq": 1, "role": "user", "content": "Why?"},
        {"seq": 2, "role": "assistant", "content": "Old", "reply_to": 1, "superseded_by": 4},
        {"seq": 3, "role": "assistant", "content": "Broken", "reply_to": 1, "status": "failed"},
        {"seq": 4, "role": "assistant", "content": "New", "reply_to": 1, "status": "cancelled"},
    ]
    assert talk(messages, **own).exchanges == (Exchange("Why?", "New", cut_off=True),)


def test_tools_that_cannot_be_played_are_left_out() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "find"}}]}
    result = {"role": "tool", "content": "seat 14C"}
    assert talk([*said("u1"), call, result, *said("a1")]).exchanges == (Exchange("u1", "a1"),)


def test_facts_belong_to_the_exchanges_that_say_them() -> None:
    facts = [
        {"slot": "id", "canonical": "QX7", "surface": ["qx 7"], "messages": [1, 5]},
        {"slot": "other id", "canonical": "qx7", "surface": ["QX7"], "messages": [2]},
        {"slot": "seat", "canonical": "14C", "surface": ["14C"], "messages": [3]},
    ]
    # Positions in the file, from 0: system, question, reply, tool, reply, question, reply.
    messages = said("s", "u1", "a1", "tool", "a1b", "u2", "a2")
    assert talk(messages, facts=facts).facts == (
        KnownFact("QX7", ("qx 7", "QX7"), (0, 1)),  # the same value is one fact
        KnownFact("14C", ("14C",), ()),  # only a tool said it
    )


@pytest.mark.parametrize(
    "facts",
    [
        {"canonical": "QX7"},
        ["QX7", None, 3, []],
        [{"canonical": 7, "messages": [0]}, {"canonical": " ", "messages": [0]}],
        [{"canonical": "QX7", "surface": "QX7", "messages": [0]}],
    ],
)
def test_facts_of_another_shape_mean_nothing(facts: Any) -> None:
    assert talk(said("u1", "a1"), facts=facts).facts == ()


@pytest.mark.parametrize(
    ("more", "name"),
    [({"title": "Trip", "id": "x"}, "Trip"), ({"id": "x"}, "x"), ({"id": 7}, "7"), ({}, "file 1")],
)
def test_talk_has_a_name(more: dict[str, Any], name: str) -> None:
    (chat,) = read_chats(json.dumps({"messages": [], **more}))
    assert talk_of(chat, "file 1").name == name

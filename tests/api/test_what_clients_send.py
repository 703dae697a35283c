"""What real clients make of a conversation, word for word in shape, and what becomes of it: one chat, and no other."""

from typing import Any

import pytest

from conversations.models import Chat
from tests.api.histories import DECISION, NAME, assistant, questions, said, send, user
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

FACT, ASKED = "My locker number is 4711", "What is my locker number?"


def topics(count: int) -> list[str]:
    return [FACT, *(f"Tell me about topic {number}" for number in range(count - 2)), ASKED]


# Clients that summarize by themselves

Messages = list[dict[str, Any]]


def summarized(kept: int) -> Any:
    """LangChain's SummarizationMiddleware: its state is a summary and the last messages, once there are too many."""

    def shorten(state: Messages) -> Messages:
        if len(state) < kept + 4:
            return state
        summary = f"Here is a summary of the conversation to date:\n\n{len(state)} messages on topics."
        return [user(summary), *state[len(state) - kept :]]

    return shorten


def head_and_tail(state: Messages) -> Messages:
    """A buffer that keeps how it began, and the end."""
    return state if len(state) < 13 else [*state[:4], *state[-7:]]


@pytest.mark.parametrize(
    "shorten", [summarized(20), summarized(7), head_and_tail], ids=["twenty kept", "seven kept", "a gap"]
)
def test_a_history_that_the_client_summarized_stays_in_its_chat(
    alice: Client, upstream: FakeUpstream, shorten: Any
) -> None:
    state: Messages = []
    for text in topics(16):
        state = shorten([*state, user(text)])
        answer = send(alice, state)
        state = [*state, assistant(said(answer))]
    assert questions(answer.headers[NAME]) == topics(16)
    assert "4711" in upstream.requests[-1].text
    assert Chat.objects.count() == 1


def test_cleared_outputs_of_tools_change_no_chat(alice: Client, upstream: FakeUpstream) -> None:
    """LangChain's ClearToolUsesEdit replaces all but the last outputs."""
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    state: Messages = []
    for text in topics(8):
        upstream.script("stream", "normal?tools=" + f'[["call_{len(state)}","look","{{}}"]]')
        called = send(alice, [*state, user(text)], tools=tools).json()["choices"][0]["message"]
        state += [
            user(text),
            called,
            {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": text},
        ]
        outputs = [one for one in state if one["role"] == "tool"]
        for one in outputs[:-3]:
            one["content"] = "[cleared]"
        answer = send(alice, state, tools=tools)
        state.append(assistant(said(answer)))
    assert Chat.objects.count() == 1
    assert questions(answer.headers[NAME]) == topics(8)


@pytest.mark.parametrize("first", [("I like tea", "Noted."), ("My PIN is 4711", "Never tell me your PIN.")])
def test_another_persons_history_that_ends_alike_leads_to_no_chat(
    alice: Client, upstream: FakeUpstream, first: tuple[str, str]
) -> None:
    """Bob's history was never sent here. It is as long as Ann's, and ends as hers does."""
    ann: Messages = []
    for text in ("My PIN is 4711", "Hello", "Thanks"):
        ann += [user(text), assistant(said(send(alice, [*ann, user(text)])))]
    bob = [user(first[0]), assistant(first[1]), *ann[2:]]
    assert send(alice, [*bob, user("What did I say first?")]).headers[DECISION] == "imported"
    assert "You said: My PIN is 4711" not in upstream.requests[-1].text


# Side requests that nothing tells from a question


def listed(client: Client) -> list[str]:
    return [one["id"] for one in client.get("chats").json()["results"]]


def test_a_request_after_each_turn_becomes_no_part_of_the_chat(alice: Client, upstream: FakeUpstream) -> None:
    """Qwen Code has its memory updated: the whole history, and a message of its own."""
    state: Messages = []
    for text in topics(5):
        state.append(user(text))
        answer = send(alice, state)
        state.append(assistant(said(answer)))
        send(alice, [*state, user("Extract what is worth remembering from the conversation above.")])
        assert len(listed(alice)) == 1, "the line that goes on"
    assert questions(answer.headers[NAME])[:5] == topics(5)
    assert listed(alice) == [answer.headers[NAME]]
    assert "worth remembering" not in upstream.requests[-2].text
    assert Chat.objects.get(temporary=False).title == FACT


def test_a_side_request_that_comes_late_is_set_aside_and_returns_if_it_is_continued(
    alice: Client, upstream: FakeUpstream
) -> None:
    state = [user("One"), assistant(said(send(alice, [user("One")])))]
    two = [*state, user("Two")]
    chat = send(alice, two).headers[NAME]
    two.append(assistant("You said: Two"))
    late = [*state, user("Remember what matters.")]
    side = send(alice, late).headers[NAME]
    assert sorted(listed(alice)) == sorted([chat, side]), "neither goes on"
    assert send(alice, [*two, user("Three")]).headers[NAME] == chat
    assert listed(alice) == [chat]
    assert Chat.objects.get(pk=side).temporary
    late += [assistant("You said: Remember what matters."), user("And more.")]
    assert send(alice, late).headers[NAME] == side
    assert sorted(listed(alice)) == sorted([chat, side]), "both go on"


@pytest.mark.parametrize("is_pinned", [True, False])
def test_a_pinned_chat_is_not_set_aside(alice: Client, upstream: FakeUpstream, is_pinned: bool) -> None:
    state = [user("One"), assistant(said(send(alice, [user("One")])))]
    chat = send(alice, [*state, user("Two")]).headers[NAME]
    alice.patch(f"chats/{chat}", json={"pinned": is_pinned})
    other = [*state, user("Three")]
    send(alice, other)
    send(alice, [*other, assistant("You said: Three"), user("Four")])
    assert (chat in listed(alice)) == is_pinned


@pytest.mark.parametrize("title_first", [True, False])
def test_a_request_for_a_title_under_the_conversations_name_is_no_turn_of_it(
    alice: Client, upstream: FakeUpstream, title_first: bool
) -> None:
    """opencode sends both when a session begins."""
    name = {"x-session-id": "ses_1"}
    agent: Messages = [{"role": "system", "content": "You are a coding agent."}]
    title = [
        {"role": "system", "content": "You are a title generator. You output ONLY a thread title."},
        user("Generate a title for this conversation:\n"),
        user(FACT),
    ]
    state = [*agent, user(FACT)]
    if title_first:
        send(alice, title, name)
    state.append(assistant(said(send(alice, state, name))))
    if not title_first:
        send(alice, title, name)
    for text in topics(5)[1:]:
        state.append(user(text))
        answer = send(alice, state, name)
        state.append(assistant(said(answer)))
    assert questions(answer.headers[NAME]) == topics(5)
    assert listed(alice) == [answer.headers[NAME]]
    assert Chat.objects.get(temporary=False).title == FACT
    assert "Generate a title" not in upstream.requests[-1].text


def test_a_new_session_under_an_old_name_keeps_its_first_turn(alice: Client, upstream: FakeUpstream) -> None:
    """A program that forgets its history, and not the name: memory is what it has the server for."""
    name = {"x-session-id": "user 42"}
    chat = send(alice, [user(FACT)], name).headers[NAME]
    again = [user("Hello again")]
    again += [assistant(said(send(alice, again, name))), user(ASKED)]
    assert send(alice, again, name).headers[NAME] == chat
    assert "4711" in upstream.requests[-1].text

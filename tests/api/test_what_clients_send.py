"""What real clients make of a conversation, word for word in shape, and what becomes of it: one chat, and no other."""

from typing import Any

import pytest

from conversations.models import Chat
from tests.api.test_openai_conversations import DECISION, NAME, assistant, questions, said, send, user
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

"""A client of OpenAI's SDK that answers tool calls, for tests over HTTP."""

import json
from typing import Any
from urllib.parse import quote

from openai import OpenAI

from conversations.models import Chat
from tests.support.fakes.upstream import FakeUpstream

LOOK: Any = {
    "type": "function",
    "function": {
        "name": "look_up_order",
        "description": "The state of an order.",
        "parameters": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    },
}
CALL = {
    "id": "call_a",
    "type": "function",
    "function": {"name": "look_up_order", "arguments": '{"order":"AB-1234"}'},
}
OUTPUT = '{"order":"AB-1234","state":"sent on 4 May","carrier":"Quicksilver Freight","weight_kg":17.25}'
QUESTION: Any = {"role": "user", "content": "Where is my order?"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWERED = {"role": "tool", "tool_call_id": "call_a", "content": OUTPUT}
"""What a client sends after calling the tool."""


def scripted(*calls: tuple[str, str, str], text: str = "") -> str:
    """Return an answer that calls tools."""
    said = f"&text={quote(text, safe='')}" if text else ""
    return f"normal?tools={quote(json.dumps(calls), safe='')}{said}"


FIRST = scripted(("call_a", "look_up_order", '{"order":"AB-1234"}'))


class ToolTalk:
    """A client that answers tool calls, and sends the whole history each time."""

    def __init__(self, ask: OpenAI, **options: Any) -> None:
        self.ask = ask
        self.options = {"model": "arco", "tools": [LOOK], **options}
        self.messages: list[Any] = []
        self.decisions: list[str] = []

    def create(self, **options: Any) -> Any:
        raw = self.ask.chat.completions.with_raw_response.create(messages=self.messages, **{**self.options, **options})
        self.decisions.append(raw.headers["x-chatmemory-conversation"])
        return raw.parse()

    def turn(self, text: str, output: str = OUTPUT) -> str:
        """Send a message, and answer the model's tool calls until it replies."""
        self.messages.append({"role": "user", "content": text})
        while True:
            choice = self.create().choices[0]
            self.messages.append(choice.message.model_dump(exclude_none=True))
            if choice.finish_reason != "tool_calls":
                assert not choice.message.tool_calls
                return str(choice.message.content)
            self.messages += [
                {"role": "tool", "tool_call_id": call.id, "content": output} for call in choice.message.tool_calls
            ]


def roles(chat: Chat) -> list[str]:
    return list(chat.messages.order_by("seq").values_list("role", flat=True))


def waiting(ask: OpenAI, upstream: FakeUpstream, **options: Any) -> ToolTalk:
    """Return the talk of a chat that waits for the output of a tool."""
    talk = ToolTalk(ask, **options)
    talk.messages.append(QUESTION)
    upstream.script("stream", FIRST)
    talk.create()
    return talk


def looked_up(ask: OpenAI, upstream: FakeUpstream, **options: Any) -> ToolTalk:
    """Return a talk whose first turn called a tool and is over."""
    talk = ToolTalk(ask, **options)
    upstream.script("stream", FIRST)
    assert talk.turn("Where is my order?") == f"You said: {OUTPUT}"
    return talk

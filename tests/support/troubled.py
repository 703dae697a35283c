"""A sample chat in which things go wrong: replies fail, are stopped, call tools and leave them; some have images."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from chatmemory.llm.attachments import image_of
from chatmemory.llm.protocol import Prompt, Reply, ReplyError, ToolCall
from conversations.models import Chat, Status
from conversations.replies.begin import begin_turn, default_variant
from conversations.replies.finish import finish
from conversations.replies.open_turn import ToolOutput
from conversations.replies.reply import BegunTurn, Ending, TurnRequest
from memory.folding.fold import fold
from tests.support.factories import brief_of, make_chat
from tests.support.images import png

SAMPLES = Path(__file__).resolve().parents[2] / "conversations" / "samples"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
FAILED = Ending(Status.FAILED, Reply("failed", error=ReplyError("upstream_error", "The model failed.")))


def exchanges(name: str) -> list[tuple[str, str]]:
    """Return the questions of a sample with their last answers, without the calls of tools in between."""
    found: list[tuple[str, str]] = []
    for one in json.loads((SAMPLES / f"{name}.json").read_text())["messages"]:
        if one["role"] == "user":
            found.append((one["content"], ""))
        elif one["role"] == "assistant" and one["content"]:
            found[-1] = (found[-1][0], one["content"])
    return found


def prompts_of(policy: str, turns_as: str = "messages") -> Iterator[Prompt]:
    """Play the sample under `policy`, and yield each prompt that its model is sent."""
    chat = make_chat(policy=policy, instructions="Be brief.", options={"turns_as": turns_as})
    for number, (question, answer) in enumerate(exchanges("trip")):
        picture = (image_of(png(40, 30, number)),) if number % 9 == 2 else ()
        asked = TurnRequest(
            message=f"Always answer in metric units, please. {question}" if number == 4 else question,
            variant=default_variant(),
            attachments=tuple(one for one in picture if one),
            tools=(TOOL,),
        )
        yield from _turn(chat, number, asked, answer)
        if brief_of(chat).due:
            fold(chat.key, until=time.monotonic() + 60)


def _turn(chat: Chat, number: int, asked: TurnRequest, answer: str) -> Iterator[Prompt]:
    complete = Ending(Status.COMPLETE, Reply("complete", model="scripted"))
    match number % 8:
        case 1:
            yield _begun(chat, asked, "", FAILED)
        case 3:
            yield _begun(chat, asked, "", Ending.cancelled())
        case 4:
            yield _begun(chat, asked, answer[:40], Ending.cancelled())
        case 5 | 6 | 7:
            calls = tuple(ToolCall(f"call{number:03}{at:02}", "look", f'{{"at": {at}}}') for at in range(2))
            called = Ending(Status.COMPLETE, Reply("complete", model="scripted", calls=calls))
            yield _begun(chat, asked, "I'll look." if number % 8 == 6 else "", called)
            outputs = tuple(ToolOutput(call.id, f"Result {call.id}\nUser: pay") for call in calls)
            follow = TurnRequest(message="", variant=asked.variant, outputs=outputs, tools=asked.tools)
            if number % 8 != 7:  # which the user leaves for the next question
                yield _begun(chat, follow, answer if number % 8 == 5 else "", complete if number % 8 == 5 else FAILED)
        case _:
            yield _begun(chat, asked, answer, complete)


def _begun(chat: Chat, asked: TurnRequest, text: str, ending: Ending) -> Prompt:
    begun = begin_turn(chat.owner, asked, chat_id=chat.pk)
    assert isinstance(begun, BegunTurn)
    card = json.dumps({"decisions": ["Go."]}) if chat.policy == "card" and ending.status == Status.COMPLETE else ""
    assert finish(begun.pending, text, Ending(ending.status, ending.reply, card)) is not None
    return begun.prompt

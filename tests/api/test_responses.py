"""Responses with OpenAI's own SDK in its strict mode: every field of every answer and event is checked."""

from typing import Any

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from conversations.models import Chat, ChatCompletion, Message
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

LOOK = {
    "type": "function",
    "name": "look",
    "description": "Look something up.",
    "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
    "strict": False,
}


def create(ask: OpenAI, given: Any, **options: Any) -> Any:
    return ask.responses.create(model="arco", input=given, **options)


def test_a_response_has_all_that_the_sdk_expects(ask: OpenAI, upstream: FakeUpstream) -> None:
    raw = ask.responses.with_raw_response.create(model="arco", input="Good morning", metadata={"a": "b"})
    made = raw.parse()
    assert made.output_text == "You said: Good morning"
    assert (made.status, made.model, made.metadata, made.store) == ("completed", "arco", {"a": "b"}, True)
    assert made.usage is not None
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens
    assert made.conversation is not None
    assert made.conversation.id == raw.headers["x-chatmemory-conversation-id"]
    assert ask.responses.retrieve(made.id) == made


def test_a_stream_has_the_whole_sequence_of_events(ask: OpenAI, upstream: FakeUpstream) -> None:
    with ask.responses.stream(model="arco", input="Good morning") as told:
        events = list(told)
        final = told.get_final_response()
    names = [one.type.removeprefix("response.") for one in events]
    deltas = names.count("output_text.delta")
    assert names == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        *["output_text.delta"] * deltas,
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    numbers = [one.sequence_number for one in events]
    assert numbers == sorted(set(numbers))
    assert final.output_text == "You said: Good morning"
    assert ask.responses.retrieve(final.id).output_text == final.output_text


def test_previous_response_id_at_the_head_continues_the_chat(ask: OpenAI, upstream: FakeUpstream) -> None:
    first = create(ask, "My order is AB-1234.")
    second = create(ask, "Where is it?", previous_response_id=first.id)
    assert second.conversation == first.conversation
    assert second.previous_response_id == first.id
    assert "AB-1234" in str(upstream.calls("stream")[-1].body)
    assert Chat.objects.count() == 1


def test_previous_response_id_of_an_older_response_branches(ask: OpenAI, upstream: FakeUpstream) -> None:
    first = create(ask, "My order is AB-1234.")
    create(ask, "It is late.", previous_response_id=first.id)
    raw = ask.responses.with_raw_response.create(model="arco", input="Cancel it.", previous_response_id=first.id)
    assert raw.headers["x-chatmemory-conversation"] == "branched"
    sent = str(upstream.calls("stream")[-1].body)
    assert "AB-1234" in sent
    assert "It is late" not in sent
    assert Message.objects.filter(content="It is late.", superseded_by=None).count() == 1


def test_previous_response_id_unknown_is_refused(ask: OpenAI, upstream: FakeUpstream) -> None:
    for unknown in ("resp_" + "0" * 32, "resp_x", "chatcmpl-1"):
        with pytest.raises(openai.BadRequestError) as told:
            create(ask, "Hello", previous_response_id=unknown)
        assert (told.value.code, told.value.param) == ("previous_response_not_found", "previous_response_id")

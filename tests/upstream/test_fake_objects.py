"""What the fake upstream answers when a request wants an object, a card or a tool call, in both API styles."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from chatmemory.llm.openai.stream_parser import Style
from chatmemory.llm.protocol import Prompt, PromptMessage, Schema, UpstreamError, Variant
from tests.support.exhaustive import first_of
from tests.support.fakes.behaviours import behaviour, pieces_of
from tests.support.fakes.cards import CLOSE, OPEN
from tests.support.fakes.objects import ANSWERS
from tests.support.fakes.upstream import FakeUpstream
from tests.upstream.talking import STYLES, model_at

TURNS = (
    "=== EXISTING_SUMMARY ===\nNONE\n=== END_EXISTING_SUMMARY ===\n\n"
    "=== NEW_TURNS ===\nTurn 1:\nUser: a AB-1234\nAssistant: b\n=== END_NEW_TURNS ==="
)
MESSAGES = (
    "## Existing facts (merge, update, or remove as needed):\n- none\n\n"
    "## Conversation:\n[user]: a AB-1234\n[assistant]: b"
)
TOOL = {"type": "object", "properties": {"goal": {"type": "string"}}}


def asked_for(name: str) -> str:
    return MESSAGES if name == "facts_and_narrative" else TURNS


def ask(fake: FakeUpstream, name: str, style: Style = "responses", instructions: str = "Answer.") -> str:
    prompt = Prompt(
        (PromptMessage("user", asked_for(name)),), instructions, schema=Schema(name, {"type": "object"})
    )
    return model_at(fake.base_url, style).complete(prompt, Variant("v", "gpt-test"), timeout=10).text


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ANSWERS)
def test_the_object_that_a_schema_names_holds_every_code(fake: FakeUpstream, name: str, style: Style) -> None:
    assert "AB-1234" in json.dumps(json.loads(ask(fake, name, style)))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_misshapen_answer_is_misshapen(fake: FakeUpstream, name: str) -> None:
    for says in ("prose", "half"):
        fake.behave("normal", says=says)
        with pytest.raises(ValueError):
            json.loads(ask(fake, name))
    right = json.loads(fake_says(fake, name, ""))
    wrong = json.loads(fake_says(fake, name, "wrong_types"))
    assert wrong.keys() == right.keys()
    assert all(type(wrong[key]) is not type(right[key]) for key in right)
    assert len(fake_says(fake, name, "vast", size=100_000)) >= 100_000


def fake_says(fake: FakeUpstream, name: str, says: str, **numbers: Any) -> str:
    fake.behave("normal", says=says, **numbers)
    return ask(fake, name)


def test_an_answer_that_does_not_exist_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match="no such answer"):
        behaviour("normal?says=nonsense")


def test_without_structured_output_the_instructions_are_followed_in_a_fence(fake: FakeUpstream) -> None:
    fake.take_schemas(False)
    said = ask(fake, "memory_card", instructions='An object with "goal" and "lesson_context".')
    assert re.search(r"```json\n\{.*AB-1234.*\}\n```", said)
    assert [request.body.get("text") is None for request in fake.requests] == [False, True]


def test_an_input_for_facts_out_of_form_is_a_fault(fake: FakeUpstream) -> None:
    schema = Schema("facts_and_narrative", {"type": "object"})
    prompt = Prompt(
        (PromptMessage("user", MESSAGES.replace("[user]", "user")),), '"facts", "narrative"', schema=schema
    )
    with pytest.raises(UpstreamError):
        model_at(fake.base_url, "responses").complete(prompt, Variant("v", "gpt-test"), timeout=10)
    assert len(fake.faults) == 2  # asked again, without the schema
    fake.clear()


def test_a_card_is_cut_wherever_that_is_awkward() -> None:
    """Cut within the opening tag, and before, in and after the closing one, at every position."""
    cuts = set()
    for length in range(30):
        text = f"said{OPEN}{'x' * length}{CLOSE}"
        pieces = pieces_of(text)
        assert "".join(pieces) == text
        ends = [len("".join(pieces[:count])) for count in range(1, len(pieces))]
        assert any(4 < end < 4 + len(OPEN) for end in ends)
        cuts |= {end - text.index(CLOSE) for end in ends}
    assert cuts >= set(range(len(CLOSE)))


def stream(fake: FakeUpstream, style: Style, told: str, **fields: Any) -> list[Any]:
    """Return the events of a streamed reply as they come over the wire."""
    said: dict[str, Any] = {
        "messages": [{"role": "system", "content": told}, {"role": "user", "content": "AB-1234"}]
    }
    if style == "responses":
        said = {"instructions": told, "input": [{"role": "user", "content": "AB-1234"}]}
    path = "chat/completions" if style == "chat" else "responses"
    answer = httpx.post(
        f"{fake.base_url}/{path}", json={"model": "gpt-test", "stream": True, **said, **fields}
    )
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def text_in(events: list[Any]) -> str:
    deltas = (
        event.get("delta") if "type" in event else (event["choices"] or [{"delta": {}}])[0]["delta"]
        for event in events
    )
    kinds = (event.get("type", "response.output_text.delta") for event in events)
    said = (delta if isinstance(delta, str) else (delta or {}).get("content") for delta in deltas)
    return "".join(
        text or "" for text, kind in zip(said, kinds, strict=True) if kind == "response.output_text.delta"
    )


def call_in(events: list[Any]) -> str:
    if any("type" in event for event in events):
        return "".join(event["delta"] for event in events if event["type"].endswith("arguments.delta"))
    parts = [
        part
        for event in events
        for choice in event["choices"]
        for part in choice["delta"].get("tool_calls", [])
    ]
    return "".join(part["function"]["arguments"] for part in parts)


@pytest.mark.parametrize("style", first_of(STYLES))
@pytest.mark.parametrize(
    ("says", "end"),
    [
        ("", rf"\n\n{OPEN}{{.*AB-1234.*}}{CLOSE}"),
        ("no_card", ""),
        ("bad_card", rf"\n\n{OPEN}{{[^}}]*{CLOSE}"),
        ("open_card", rf"\n\n{OPEN}{{.*}}"),
    ],
)
def test_a_reply_ends_with_a_card_where_the_instructions_ask(
    fake: FakeUpstream, style: Style, says: str, end: str
) -> None:
    fake.behave("normal", says=says)
    assert re.fullmatch(f"You said: AB-1234{end}", text_in(stream(fake, style, f"End with {OPEN}.")))
    assert text_in(stream(fake, style, "Be kind.")) == "You said: AB-1234"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("says", "text"), [("", "You said: AB-1234"), ("card_alone", "")])
def test_a_tool_is_called(fake: FakeUpstream, style: Style, says: str, text: str) -> None:
    fake.behave("normal", says=says)
    function = {"name": "update_memory", "parameters": TOOL}
    tool = {"type": "function", **(function if style == "responses" else {"function": function})}
    events = stream(fake, style, "Be kind.", tools=[tool])
    assert "AB-1234" in json.dumps(json.loads(call_in(events)))
    assert text_in(events) == text
    if style == "chat":
        assert [c["finish_reason"] for e in events for c in e["choices"]][-1] == "tool_calls"
    else:
        kinds = [item["type"] for item in events[-1]["response"]["output"]]
        assert kinds == ["reasoning", *(["message"] if text else []), "function_call"]

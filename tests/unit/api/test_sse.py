"""Server-sent events as bytes, parsed both as the standard says and as lenient readers do."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.replies import sse

SEPARATORS, HALVES = "\r\n\x0b\x1c\x85\u2028\u2029", "\ud83d\ude00"
texts = st.text(st.sampled_from(SEPARATORS + HALVES) | st.characters(exclude_categories=()))


def read(wire: bytes) -> list[dict[str, Any]]:
    """Parse a stream into events, splitting lines at every character that any reader might treat as a line break."""
    events: list[dict[str, Any]] = []
    fields: dict[str, Any] = {}
    for line in wire.decode().splitlines():
        if not line:
            events += [fields] if fields else []
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            assert name not in fields
            fields[name] = value
    assert not fields, "the last event was not ended"
    return events


def test_an_event_to_the_letter() -> None:
    wire = sse.event("content.delta", {"delta": "Grüße"}, 5)
    assert wire == 'event: content.delta\nid: 5\ndata: {"delta":"Grüße"}\n\n'.encode()


def test_an_event_without_id_has_no_id_line() -> None:
    assert sse.event("reconnect", {"retry_ms": 100}) == b'event: reconnect\ndata: {"retry_ms":100}\n\n'


def test_a_comment_is_no_event() -> None:
    wire = sse.event("a", {}) + sse.comment() + sse.event("b", {})
    assert sse.comment() == b": keep-alive\n\n"
    assert [event["event"] for event in read(wire)] == ["a", "b"]


@given(st.lists(texts))
def test_any_text_comes_through_as_one_line(deltas: list[str]) -> None:
    wire = b"".join(sse.event("content.delta", {"delta": text}, number) for number, text in enumerate(deltas))
    events = read(wire)
    assert [event["id"] for event in events] == [str(number) for number in range(len(deltas))]
    for event, text in zip(events, deltas, strict=True):
        assert json.loads(event["data"]) == {"delta": storable(text)}


def storable(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


clean = texts.map(storable)


@given(st.dictionaries(clean, st.none() | st.integers() | clean | st.lists(clean, max_size=3), max_size=4))
def test_any_json_object_comes_through(data: dict[str, Any]) -> None:
    assert json.loads(read(sse.event("message.completed", data))[0]["data"]) == data


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        sse.event("message.completed", {"share": float("nan")})
    with pytest.raises(TypeError):
        sse.event("message.completed", {"id": object()})

"""Server-sent events as bytes, parsed both as the standard says and as lenient readers do; those of a reply."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.replies.events import event

SEPARATORS, HALVES = "\r\n\x0b\x1c\x85\u2028\u2029", "\ud83d\ude00"
texts = st.text(st.sampled_from(SEPARATORS + HALVES) | st.characters(exclude_categories=()))


def parse(wire: bytes) -> list[dict[str, Any]]:
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
    wire = event("content.delta", {"delta": "Grüße"}, 5)
    assert wire == 'event: content.delta\nid: 5\ndata: {"delta":"Grüße"}\n\n'.encode()


@given(st.lists(texts))
def test_any_text_comes_through_as_one_line(deltas: list[str]) -> None:
    wire = b"".join(event("content.delta", {"delta": text}, number) for number, text in enumerate(deltas))
    events = parse(wire)
    assert [one["id"] for one in events] == [str(number) for number in range(len(deltas))]
    for one, text in zip(events, deltas, strict=True):
        assert json.loads(one["data"]) == {
            "delta": text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        }


def test_payload_rejects_invalid_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        event("message.completed", {"share": float("nan")})
    with pytest.raises(TypeError):
        event("message.completed", {"id": object()})

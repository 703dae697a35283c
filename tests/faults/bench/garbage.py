"""What a broken upstream might send, as Hypothesis strategies: noise, damaged answers, events of any shape."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from tests.support.fakes.speech import End, Speech

SAID = ("Ada ", "is ", "in ", "Berlin. ", "😀 ", "ende")
STRANGE_BYTES = (
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xc3",
    b"\r",
    b"\n\n",
    b"\x1b[2J",
    b"\xe2\x80\xae",
    b'"',
)
STRANGE_TEXTS = (
    "\0",
    "\ud800",
    "\udc00",
    "\ud83d",
    "\ude00",
    "\u202e",
    "\ufeff",
    "\x85",
    "\u2028",
    "\x1b[2J",
    "",
)
KEYS = (
    "type",
    "delta",
    "response",
    "choices",
    "error",
    "usage",
    "content",
    "output",
    "finish_reason",
    "text",
)
WORDS = (
    "response.output_text.delta",
    "response.completed",
    "response.failed",
    "response.telepathy",
    "stop",
    "error",
    "message",
    "output_text",
)

texts = st.lists(st.sampled_from(STRANGE_TEXTS) | st.text(max_size=8), max_size=4).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | texts, inner, max_size=5)
    ),
    max_leaves=12,
)
large = st.sampled_from(
    [b"data: " + b"[" * 50_000 + b"\n\n", b"data: " + b"x" * 200_000, b'data: {"a":' * 3_000 + b"\n\n"]
)
pages = st.sampled_from(
    [b"<!doctype html>\n<h1>502</h1>\n", b"", b"{}", b"null", b"data: [DONE]\n\n", b"\n" * 500]
)


def good(style: str, pieces: tuple[str, ...] = SAID) -> list[bytes]:
    """Return the events of a good answer."""
    speech = Speech(style, "gpt-fake", "resp_1", {"input": 11, "cached": 4, "output": 7})
    deltas = [speech.delta(piece) for piece in pieces]
    return [*speech.opening(), *deltas, *speech.closing("".join(pieces), End())]


def event(value: Any) -> bytes:
    """Return an event with any data."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta(style: str, text: Any) -> bytes:
    """Return an event with any value in place of its text."""
    if style == "chat":
        return event({"choices": [{"index": 0, "delta": {"content": text}}]})
    return event({"type": "response.output_text.delta", "delta": text})


@st.composite
def damaged(draw: st.DrawFn, style: str) -> bytes:
    """Generate a good answer with a defect."""
    events = good(style)
    where = draw(st.integers(0, len(events)))
    how = draw(st.sampled_from(["insert", "drop", "repeat", "swap", "bytes", "speak"]))
    if how == "insert":
        events[where:where] = draw(st.lists(values.map(event) | large, max_size=3))
    elif how == "speak":
        events[where:where] = [delta(style, draw(texts | values)) for _ in range(3)]
    elif how == "drop":
        del events[where : where + draw(st.integers(1, 4))]
    elif how == "repeat":
        events[where:where] = events[max(0, where - 2) : where]
    elif how == "swap":
        events.reverse()
    body = b"".join(events)
    if how == "bytes":
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.sampled_from(STRANGE_BYTES) | st.binary(max_size=9)) + body[at + 1 :]
    return body


def streams(style: str) -> st.SearchStrategy[bytes]:
    """Return a strategy for the body of a streamed answer."""
    return (
        damaged(style)
        | st.binary(max_size=300)
        | pages
        | st.lists(values.map(event), max_size=8).map(b"".join)
    )


def answers(style: str) -> st.SearchStrategy[bytes]:
    """Return a strategy for an answer that is not streamed, including whole ones with any text."""
    speech = Speech(style, "gpt-fake", "resp_1", {"input": 11, "cached": 4, "output": 7})
    whole = texts.map(lambda text: json.dumps(speech.whole(f"Ada {text} is in Berlin.", End())).encode())
    other = values.map(lambda value: json.dumps(value).encode())
    return (
        whole | other | st.binary(max_size=300) | pages | st.sampled_from([b"[" * 100_000, b'{"id": "\xff"}'])
    )


def often(times: int) -> hypothesis:
    """Run `times` examples, with fixtures shared by all of them."""
    shared = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return hypothesis(max_examples=times, deadline=None, suppress_health_check=shared, database=None)

"""Every shape of an answer, for an unstreamed request; `tests/api/test_upstream_shapes.py` has the streamed ones.

What the SDK's own decoder reads of a stream, our reader reads, too.
"""

import json
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai._streaming import SSEDecoder

from chatmemory.llm.openai.reading import ReplyReader, Style
from chatmemory.llm.protocol import UpstreamError
from tests.support.exhaustive import first_of_each
from tests.support.fakes.shapes import Shape, shapes
from tests.support.fakes.streaming import PART
from tests.support.fakes.upstream import FakeUpstream
from tests.upstream.talking import PROMPT, VARIANT, model_at

SHAPES = list(shapes())


@pytest.mark.parametrize("shape", first_of_each(shapes(), lambda one: one.kind), ids=lambda one: one.name)
def test_an_unstreamed_request_with_any_shape_of_answer_is_read(fake: FakeUpstream, shape: Shape) -> None:
    fake.behave(shape.behaviour)
    model = model_at(fake.base_url, shape.style)
    if shape.code in ("upstream_error", "context_length_exceeded") and "only" not in shape.name:
        with pytest.raises(UpstreamError) as raised:
            model.complete(PROMPT, VARIANT, timeout=10)
        assert raised.value.reason.code == shape.code
        return
    answer = model.complete(PROMPT, VARIANT, timeout=10)
    assert answer.text == shape.text
    assert (answer.truncated, answer.refused) == (shape.code == "too_long", shape.code == "refused")


TEXTS = st.text(st.sampled_from("a 1\u2028\x85\x0b\u00e9\U0001f600:{}\n"), min_size=1, max_size=5)
FIELDS = st.lists(st.sampled_from([": ping", "event: message", "id: 7", "retry: 5", "id", "other: x"]), max_size=2)


def event_of(style: Style, text: str | None) -> str:
    """Return the data of an event that says `text`, or of the one that ends the answer."""
    if style == "responses":
        ended = {"type": "response.completed", "response": {"status": "completed", "output": []}}
        return json.dumps({"type": "response.output_text.delta", "delta": text} if text else ended, ensure_ascii=False)
    choice = {
        "index": 0,
        "delta": {"content": text} if text else {},
        "finish_reason": None if text else "stop",
    }
    return json.dumps({"choices": [choice]}, ensure_ascii=False)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Style, list[bytes]]:
    """A stream in any framing that the protocol of server-sent events allows, cut anywhere."""
    style: Style = draw(st.sampled_from(["chat", "responses"]))
    lines: list[str] = []
    for text in [*draw(st.lists(TEXTS, max_size=5)), None]:
        data = event_of(style, text)
        at = draw(st.sampled_from([0, data.index(", ") + 2 if ", " in data else 0]))  # JSON may have a line end there
        name = draw(st.sampled_from(["data:", "data: "]))
        lines += [*draw(FIELDS), *(name + part for part in (data[:at], data[at:]) if part), ""]
        lines += draw(st.lists(st.sampled_from(["", ": ping"]), max_size=2))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    body = draw(st.sampled_from(["", "\n"])) + end.join([*lines, "data: [DONE]", "", ""])
    raw = body.encode()
    cuts = sorted({0, len(raw), *draw(st.lists(st.integers(0, len(raw)), max_size=8))})
    return style, [raw[one:other] for one, other in pairwise(cuts)]


def read_by_sdk(style: Style, chunks: list[bytes]) -> str:
    text = ""
    for sse in SSEDecoder().iter_bytes(iter(chunks)):
        if sse.data.startswith("[DONE]"):
            break
        data = (sse.json() if sse.data else None) or {}
        text += data.get("delta", "") if style == "responses" else ""
        text += "".join(choice["delta"].get("content", "") for choice in data.get("choices", ()))
    return text


@given(streams())
def test_stream_reads_all_that_the_sdk_reads(stream: tuple[Style, list[bytes]]) -> None:
    style, chunks = stream
    reader = ReplyReader(style, terminal="strict", max_bytes=10_000)
    text = "".join(map(reader.feed, chunks)) + reader.finish()
    expected = read_by_sdk(style, chunks)
    assert text == (expected if expected.strip() else "")
    assert reader.reply(model="m").status == ("complete" if text else "failed")


STREAMED = [one for one in SHAPES if one.status == "complete" and one.body.startswith("data:")]


@pytest.mark.parametrize("shape", STREAMED, ids=[one.name for one in STREAMED])
def test_no_text_of_a_shape_that_the_sdk_reads_is_missed(shape: Shape) -> None:
    expected = ""
    with suppress(ValueError, TypeError, KeyError):  # what the SDK cannot read
        expected = read_by_sdk(shape.style, [shape.body.replace(PART, "").encode()])
    assert shape.text.startswith(expected)

"""The push parser: any cut, any bytes, and never "complete" without the upstream's own marker (promises P4 and P9)."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.openai.reading import EVENT_ROOM, ReplyReader, StopSequences, Style, Terminal, usage_in
from chatmemory.llm.protocol import Reply, Usage
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.streaming import wire

STYLES: list[Style] = ["responses", "chat"]
MARKERS: dict[Style, bytes] = {"responses": b'"response.completed"', "chat": b'"finish_reason": "stop"'}
TEXT = lorem(35)


def reply_to(style: Style, *chunks: bytes, terminal: Terminal = "strict", max_bytes: int = 10**6) -> tuple[str, Reply]:
    reader = ReplyReader(style, terminal=terminal, max_bytes=max_bytes)
    text = "".join([reader.feed(chunk) for chunk in chunks]) + reader.finish()
    return text, reader.reply(model="m")


def read(style: Style, *chunks: bytes, terminal: Terminal = "strict") -> tuple[str, str]:
    """Return the text of a stream and the code of its verdict, empty for complete."""
    text, reply = reply_to(style, *chunks, terminal=terminal)
    return text, reply.error.code if reply.error else ""


def marker_end(style: Style, stream: bytes) -> int:
    """Return the offset after the event with the terminal marker; its blank line may be missing."""
    return stream.index(b"\n\n", stream.rindex(MARKERS[style]))


@pytest.mark.promise("P4")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.exhaustive
def test_a_cut_at_any_byte_is_complete_only_behind_the_marker(style: Style) -> None:
    stream = wire(style, TEXT)
    end = marker_end(style, stream)
    assert stream.count(b"\n\n") >= 38
    for offset in range(len(stream) + 1):
        text, code = read(style, stream[:offset])
        assert TEXT.startswith(text)
        assert (code == "") is (offset >= end), offset
        if not code:
            assert text == TEXT


@pytest.mark.parametrize("style", STYLES)
@given(cuts=st.lists(st.integers(0, 6000)))
def test_any_cut_into_chunks_reads_the_same(style: Style, cuts: list[int]) -> None:
    stream = wire(style, "zwölf Boxkämpfer 語 😀 jagen", kind="unknown").replace(b"\n\n", b"\r\n\r\n", 3)
    marks = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[start:end] for start, end in itertools.pairwise(marks)]
    assert read(style, *chunks) == ("zwölf Boxkämpfer 語 😀 jagen", "")


NOISE = st.lists(
    st.binary(max_size=40)
    | st.sampled_from([b"data: ", b"\n", b"\n\n", b"\r\n", b"data: [DONE]\n\n", b'data: {"error": {}}\n\n'])
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "delta", "response", "choices", "error", "usage", "content", "output"])
                | st.text(),
                inner | st.sampled_from(["response.completed", "response.output_text.delta", "error", "message"]),
                max_size=5,
            )
        ),
        max_leaves=12,
    ).map(lambda value: b"data: " + json.dumps(value).encode() + b"\n\n")
)


@pytest.mark.promise("P9")
@pytest.mark.parametrize("style", STYLES)
@given(chunks=NOISE)
def test_no_bytes_at_all_make_it_raise_or_leave_it_without_a_verdict(style: Style, chunks: list[bytes]) -> None:
    text, reply = reply_to(style, *chunks, terminal="done", max_bytes=1000)
    assert len(text.encode()) <= 1000
    assert "\0" not in text
    assert reply.status in {"complete", "incomplete", "failed"}
    assert (reply.error is None) is (reply.status == "complete")
    assert (reply.status == "failed") is (text == "")


def test_the_model_named_at_the_end_of_a_response_wrote_it() -> None:
    """A gateway names at the beginning the one that was asked for."""
    stream = wire("responses", TEXT).replace(b"gpt-fake", b"gpt-else", 1)
    assert stream.index(b"gpt-else") < stream.index(b"gpt-fake")
    assert reply_to("responses", stream)[1].model == "gpt-fake"


@pytest.mark.parametrize("style", STYLES)
def test_stream_ignores_events_after_end(style: Style) -> None:
    text, code = read(style, wire(style, "abc", kind="failed", after=9) + wire(style, "more"))
    assert (text, code) == ("abc", "upstream_error")


@pytest.mark.parametrize("style", STYLES)
def test_done_is_a_marker_only_where_the_server_is_known_to_need_it(style: Style) -> None:
    stream = wire(style, TEXT, kind="no_finish")
    assert read(style, stream) == (TEXT, "upstream_error")
    assert read(style, stream, terminal="done") == (TEXT, "")


@pytest.mark.parametrize("style", STYLES)
def test_an_event_longer_than_the_bound_is_not_held(style: Style) -> None:
    for endless in (b"data: " + b"x" * 2 * EVENT_ROOM, b"data: x\n" * (EVENT_ROOM // 4)):
        reply = reply_to(style, endless, max_bytes=1000)[1]
        assert (reply.status, reply.error and reply.error.code) == ("failed", "too_long")


def chat_chunk(content: str, finish: str | None) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def test_text_after_a_finish_reason_takes_the_end_back() -> None:
    first, second = chat_chunk("Hi ", "stop"), chat_chunk("there", None)
    assert read("chat", first) == ("Hi ", "")
    assert read("chat", first, second) == ("Hi there", "upstream_error")
    assert read("chat", first, second, chat_chunk("", "stop")) == ("Hi there", "")


@pytest.mark.parametrize("value", [5, [{"text": 5}], {"text": "x"}])
@pytest.mark.parametrize("style", STYLES)
def test_text_of_a_wrong_type_is_no_answer(style: Style, value: object) -> None:
    event = {"type": "response.output_text.delta", "delta": value, "choices": [{"delta": {"content": value}}]}
    stream = wire(style, "Hi", kind="stall") + b"data: " + json.dumps(event).encode() + b"\n\n"
    assert read(style, stream + wire(style, "more")) == ("Hi", "upstream_error")


@pytest.mark.parametrize("usage", [None, 5, {}, {"input_tokens": -1, "output_tokens": 2}, {"input_tokens": 10**30}])
def test_odd_usage_is_no_usage(usage: object) -> None:
    event = {"type": "response.completed", "response": {"usage": usage, "model": 7, "id": "r\0" + "x" * 999}}
    reply = reply_to("responses", b"data: " + json.dumps(event).encode() + b"\n\n")[1]
    assert (reply.usage, reply.model, len(reply.response_id)) == (None, "m", 200)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, (20, 9, 5)),
        ({"prompt_tokens": 20, "completion_tokens": 5, "cached_tokens": 9}, (20, 9, 5)),
        ({"input_tokens": 20, "output_tokens": 5, "total_tokens": 316}, (20, 0, 296)),
        ({"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 5}, (20, 0, 5)),
    ],
)
def test_cached_tokens_and_thoughts_are_counted_wherever_they_stand(
    usage: object, expected: tuple[int, int, int]
) -> None:
    assert usage_in(usage) == Usage(*expected)


@pytest.mark.parametrize("style", STYLES)
def test_text_never_exceeds_its_bound_and_is_cut_between_characters(style: Style) -> None:
    text, reply = reply_to(style, wire(style, "語語語語 語語"), max_bytes=10)
    assert (text, reply.status) == ("語語語", "incomplete")
    assert reply.error is not None
    assert reply.error.code == "too_long"


PIECES = st.text("ab<", max_size=8)


@given(st.lists(PIECES, max_size=6), st.lists(PIECES, max_size=3))
def test_the_text_ends_before_the_first_stop_however_it_is_cut(deltas: list[str], stops: list[str]) -> None:
    whole = "".join(deltas)
    ends = [at for stop in stops if stop and (at := whole.find(stop)) >= 0]
    # A stop that is complete earlier wins over one that begins earlier, as where the text is generated.
    cutter = StopSequences(stops)
    said = "".join(cutter.feed(delta) for delta in deltas) + cutter.flush()
    assert cutter.was_found is bool(ends)
    assert whole.startswith(said)
    if not ends:
        assert said == whole
    else:
        assert not any(stop in said for stop in stops if stop)
        assert any(whole[len(said) :].startswith(stop) for stop in stops if stop)

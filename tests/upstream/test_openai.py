"""`stream` against a misbehaving upstream: the status, code, text, time and number of requests."""

import asyncio
import logging
import socket
from contextlib import aclosing, suppress

import pytest

from chatmemory.llm.openai import client as pace
from chatmemory.llm.openai import transport
from chatmemory.llm.openai.client import OpenAIModel
from chatmemory.llm.openai.reading import Style, Terminal
from chatmemory.llm.protocol import Deadlines, Prompt, PromptMessage, Reply, Usage
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.shapes import DONE, Shape, chunk
from tests.support.fakes.streaming import CLEAN, PART
from tests.support.fakes.upstream import FakeUpstream
from tests.upstream.talking import (
    BRISK,
    KEY,
    PATIENT,
    PROMPT,
    STYLES,
    VARIANT,
    Outcome,
    listen,
    model_at,
    run,
    talk,
)

pytestmark = [pytest.mark.exhaustive, pytest.mark.nightly]

TEXT = "one two three four five"
START = "one two three "

MISBEHAVIOURS = [
    ("normal", "complete", "", TEXT),
    ("unknown", "complete", "", TEXT),
    ("dirty", "complete", "", CLEAN),
    # too slow
    ("silent", "failed", "upstream_timeout", ""),
    ("normal?delay=5", "failed", "upstream_timeout", ""),
    ("stall", "incomplete", "upstream_timeout", START),
    ("drip", "failed", "upstream_timeout", ""),
    ("pings", "incomplete", "upstream_timeout", START),
    # cut off
    ("drop", "failed", "upstream_error", ""),
    ("drop?how=reset", "failed", "upstream_error", ""),
    ("cut?after=9&how=reset", "failed", "upstream_error", ""),
    ("no_finish", "incomplete", "upstream_error", TEXT),
    # refused before the first byte
    ("status?code=400&error=context_length_exceeded", "failed", "context_length_exceeded", ""),
    ("status?code=401", "failed", "upstream_error", ""),
    ("status?code=429&retry_after=1", "failed", "upstream_error", ""),
    ("status?code=500", "failed", "upstream_error", ""),
    ("endless_error", "failed", "upstream_error", ""),
    ("redirect", "failed", "upstream_error", ""),
    # ended by the upstream itself
    ("refused", "incomplete", "refused", TEXT),
    ("incomplete", "incomplete", "too_long", START),
    ("incomplete?error=content_filter", "incomplete", "refused", START),
    ("failed", "incomplete", "upstream_error", START),
    ("error_event", "incomplete", "upstream_error", START),
    ("error_line", "incomplete", "upstream_error", START),
    ("empty", "failed", "upstream_error", ""),
    # garbage
    ("bad_json", "incomplete", "upstream_error", START),
    ("bad_utf8", "incomplete", "upstream_error", START),
    ("deep_json", "incomplete", "upstream_error", START),
    ("html", "failed", "upstream_error", ""),
    ("unstreamed", "complete", "", TEXT),
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("how", "status", "code", "text"), MISBEHAVIOURS)
def test_every_misbehaviour_ends_in_time_and_in_one_honest_reply(
    fake: FakeUpstream, style: Style, how: str, status: str, code: str, text: str
) -> None:
    fake.behave(f"{how}{'&' if '?' in how else '?'}text={TEXT}")
    deadlines = BRISK if code == "upstream_timeout" else PATIENT
    outcome = talk(fake.base_url, style, deadlines=deadlines)
    assert outcome.summary == (status, code, text)
    assert outcome.seconds <= deadlines.total + 1
    assert len(fake.requests) == 1
    fake.wait_until(lambda it: it.active == 0)


@pytest.mark.parametrize("how", ["stall_after_end", "error_event"])
@pytest.mark.parametrize("style", STYLES)
def test_a_reply_that_has_ended_does_not_wait_for_its_connection(
    fake: FakeUpstream, style: Style, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatmemory.llm.openai.client.SECONDS_FOR_USAGE", 0.2)
    fake.behave(how, text=TEXT)
    outcome = talk(fake.base_url, style)
    assert outcome.reply.status == ("complete" if how == "stall_after_end" else "incomplete")
    assert outcome.seconds < 5  # PATIENT would allow ten for silence


@pytest.mark.parametrize(
    "early",
    [
        chunk({"reasoning_content": "Hm."}, "stop") + PART,
        chunk({"role": "assistant", "content": ""}, "stop") + PART,
        chunk({"content": "Well. "}, "stop") + PART,
        chunk({"reasoning_content": "Hm."}, "stop") + PART + chunk({"content": "Well. "}) + chunk({}, "stop") + PART,
    ],
)
def test_stream_end_reported_early_text_is_still_awaited(
    fake: FakeUpstream, monkeypatch: pytest.MonkeyPatch, early: str
) -> None:
    monkeypatch.setattr("chatmemory.llm.openai.client.SECONDS_FOR_USAGE", 0.0)
    fake.behave(Shape("", early + chunk({"content": TEXT}, "stop") + PART + DONE).behaviour)
    text = "Well. " * ("Well" in early) + TEXT
    assert talk(fake.base_url, "chat").summary == ("complete", "", text)


@pytest.mark.parametrize("style", STYLES)
def test_stream_good_reply_reports_usage_and_sends_request(fake: FakeUpstream, style: Style) -> None:
    outcome = talk(fake.base_url, style)
    assert outcome.text == "You said: Where is Ada?"
    assert outcome.reply.usage == Usage(input_tokens=3, cached_tokens=1, output_tokens=5)
    assert outcome.reply.model == "gpt-test"
    assert outcome.reply.response_id.startswith("resp_")
    [request] = fake.requests
    assert (request.style, request.lane) == (style, "stream")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (request.instructions, request.said) == ("Be kind.", [("user", "Where is Ada?")])
    assert request.body.get("store") is (False if style == "responses" else None)


def test_a_long_answer_within_the_limit_passes(fake: FakeUpstream) -> None:
    long = "x" * 1_000_000
    fake.behave("normal", text=long)
    assert talk(fake.base_url, "responses").summary == ("complete", "", long)


@pytest.mark.parametrize(
    ("how", "style", "terminal", "is_complete"),
    [
        ("only_at_the_end", "responses", "strict", True),
        ("only_at_the_end", "chat", "strict", False),
        ("no_finish", "chat", "done", True),
    ],
)
def test_stream_end_marker_depends_on_style_and_profile(
    fake: FakeUpstream, how: str, style: Style, terminal: Terminal, is_complete: bool
) -> None:
    fake.behave(how, text=TEXT)
    expected = ("complete", "", TEXT) if is_complete else ("failed", "upstream_error", "")
    assert talk(fake.base_url, style, terminal=terminal).summary == expected


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        outcome = talk(f"http://127.0.0.1:{closed.getsockname()[1]}/v1", "responses")
    assert outcome.summary == ("failed", "upstream_error", "")


def test_an_upstream_that_says_continue_without_end_is_left_at_the_deadline() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
                await writer.drain()
        writer.close()

    async def serve() -> Outcome:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            model = model_at(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", "chat")
            try:
                return await listen(model, Deadlines(first_byte=0.5))
            finally:
                await transport.aclose()  # the server waits for its connections

    outcome = run(serve())
    assert outcome.summary == ("failed", "upstream_timeout", "")
    assert outcome.seconds < 5


def test_a_prompt_that_cannot_be_sent_is_a_failed_reply(fake: FakeUpstream) -> None:
    broken = Prompt((PromptMessage("user", "half a pair: \ud83d"),))
    outcome = talk(fake.base_url, "responses", prompt=broken)
    assert outcome.summary == ("failed", "upstream_error", "")
    assert fake.requests == []


def test_connection_is_reused_between_replies(fake: FakeUpstream) -> None:
    model = model_at(fake.base_url, "chat")

    async def three() -> int:
        for _ in range(3):
            await listen(model)
        return len(fake.connections)

    fake.wait_until(lambda it: not it.connections)
    assert run(three()) == 1


@pytest.mark.parametrize("how", ["cancelled", "left"])
def test_a_reader_that_goes_away_gives_its_connection_back(fake: FakeUpstream, how: str) -> None:
    fake.behave("stall", text=TEXT)

    async def read(heard: asyncio.Event) -> None:
        async with aclosing(model.stream(PROMPT, VARIANT, Deadlines())) as stream:
            async for _ in stream:
                heard.set()
                if how == "left":
                    break

    model = model_at(fake.base_url, "responses")

    async def go_away() -> None:
        heard = asyncio.Event()
        task = asyncio.create_task(read(heard))
        await heard.wait()
        if how == "cancelled":
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() is (how == "cancelled")
        await asyncio.to_thread(fake.wait_until, lambda it: it.active == 0)
        assert (await listen(model, BRISK)).reply.status == "incomplete"  # the model still works

    run(go_away())


def test_a_consumer_that_is_slow_is_not_interrupted(fake: FakeUpstream) -> None:
    """A deadline may end our read but must never cancel what the consumer does between two deltas."""

    model = model_at(fake.base_url, "chat")

    async def slow_listener() -> tuple[int, object]:
        finished, last = 0, None
        async for event in model.stream(PROMPT, VARIANT, Deadlines(0.2, 0.2, 0.2)):
            await asyncio.sleep(0.3)  # longer than any deadline
            finished, last = finished + 1, event
        return finished, last

    fake.behave("normal", text=TEXT, rate=50)
    finished, last = run(slow_listener())
    assert finished >= 2
    assert isinstance(last, Reply)
    assert last.error is not None
    assert last.error.code == "upstream_timeout"


def test_paced_reads_return_all_available_bytes(fake: FakeUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "READS_A_SECOND", 5)
    monkeypatch.setattr(pace, "UNPACED_STREAMS", 0)
    fake.behave("normal", deltas=60, rate=300)
    outcome = talk(fake.base_url, "responses")
    assert outcome.summary == ("complete", "", lorem(60))
    assert len(outcome.deltas) <= 5


def test_a_server_without_a_key_is_sent_a_placeholder(fake: FakeUpstream) -> None:
    model = OpenAIModel("", fake.base_url, "chat", "strict")
    run(listen(model))
    assert fake.requests[0].headers["authorization"] == "Bearer no-key"


@pytest.mark.parametrize("how", ["status?code=401", "failed", "drop", "silent"])
def test_log_of_failures_has_no_keys_or_user_text(
    fake: FakeUpstream, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    fake.behave(how)
    with caplog.at_level(logging.DEBUG, logger="chatmemory.llm"):
        outcome = talk(fake.base_url, "responses", deadlines=BRISK)
    [record] = [record for record in caplog.records if record.name.startswith("chatmemory")]
    assert record.getMessage() == "upstream failed"
    facts = record.__dict__
    assert (facts["code"], facts["variant"]) == (outcome.code, "arco")
    assert facts["status"] == (401 if "401" in how else None)
    assert facts["upstream_code"] == ("server_error" if how in ("status?code=401", "failed") else None)
    assert facts["duration_ms"] >= 0
    assert outcome.reply.error is not None
    for secret in (KEY, "sk-leak", "Ada", "kind"):
        assert secret not in f"{facts} {outcome.reply.error}"

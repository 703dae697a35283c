"""`complete`: one answer within a hard deadline, with few and considerate retries, or an `UpstreamError`."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from chatmemory.llm.openai.reading import Style
from chatmemory.llm.protocol import Completion, Prompt, PromptMessage, UpstreamError, Usage
from tests.support.exhaustive import first_of
from tests.support.fakes.streaming import CLEAN
from tests.support.fakes.upstream import FakeUpstream
from tests.upstream.talking import KEY, PROMPT, STYLES, VARIANT, model_at


def ask(fake: FakeUpstream, style: Style, prompt: Prompt = PROMPT, *, timeout: float = 10.0) -> Completion:
    return model_at(fake.base_url, style).complete(prompt, VARIANT, timeout=timeout)


@pytest.mark.parametrize("style", STYLES)
def test_a_good_answer(fake: FakeUpstream, style: Style) -> None:
    answer = ask(fake, style)
    assert answer == Completion(text="You said: Where is Ada?", model="gpt-test", usage=Usage(3, 1, 5))
    [request] = fake.requests
    assert (request.style, request.lane) == (style, "complete")
    assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("how", "truncated", "refused", "text"),
    [
        ("incomplete", True, False, "a b"),
        ("incomplete?error=content_filter", False, True, "a b"),
        ("refused", False, True, "a b"),
        ("empty", False, False, ""),
        ("dirty", False, False, CLEAN),
    ],
)
def test_unusual_ends_are_marked(
    fake: FakeUpstream, style: Style, how: str, truncated: bool, refused: bool, text: str
) -> None:
    fake.behave(f"{how}{'&' if '?' in how else '?'}text=a b")
    answer = ask(fake, style)
    assert (answer.truncated, answer.refused, answer.text) == (truncated, refused, text)
    assert len(fake.requests) == 1


@pytest.mark.parametrize("style", first_of(STYLES))
@pytest.mark.parametrize(
    ("how", "code", "tries"),
    [
        ("status?code=500", "upstream_error", 3),
        ("status?code=429", "upstream_error", 3),
        ("drop", "upstream_error", 3),
        ("cut?after=20", "upstream_error", 3),
        ("html", "upstream_error", 3),
        ("bad_json", "upstream_error", 3),
        ("deep_json", "upstream_error", 3),
        ("status?code=401", "upstream_error", 1),
        ("status?code=400&error=context_length_exceeded", "context_length_exceeded", 1),
        ("status?code=429&error=insufficient_quota", "upstream_error", 1),
        ("redirect", "upstream_error", 1),
        ("failed", "upstream_error", 1),
        ("huge?size=18000000", "too_long", 1),
    ],
)
def test_complete_retries_only_transient_failures(
    fake: FakeUpstream, style: Style, how: str, code: str, tries: int
) -> None:
    fake.behave(how)
    with pytest.raises(UpstreamError) as caught:
        ask(fake, style)
    assert caught.value.reason.code == code
    assert len(fake.requests) == tries
    assert "sk-" not in str(caught.value)


def test_a_retry_that_succeeds_is_an_answer(fake: FakeUpstream) -> None:
    fake.script("complete", "status?code=503", "drop", "normal")
    assert ask(fake, "chat").text == "You said: Where is Ada?"
    assert len(fake.requests) == 3


def test_a_retry_that_could_not_end_in_time_is_not_tried(fake: FakeUpstream) -> None:
    fake.behave("status?code=429&retry_after=60")
    started = time.monotonic()
    with pytest.raises(UpstreamError):
        ask(fake, "responses", timeout=5)
    assert time.monotonic() - started < 2
    assert len(fake.requests) == 1


@pytest.mark.parametrize("style", first_of(STYLES))
@pytest.mark.parametrize("how", first_of(["silent", "normal?delay=9", "drip", "stall", "endless_error?code=200"], 2))
def test_the_total_is_hard(fake: FakeUpstream, style: Style, how: str) -> None:
    fake.behave(how)
    started = time.monotonic()
    with pytest.raises(UpstreamError) as caught:
        ask(fake, style, timeout=0.3)
    assert time.monotonic() - started < 1.3
    assert caught.value.reason.code == ("too_long" if "endless" in how else "upstream_timeout")
    assert len(fake.requests) == 1
    fake.wait_until(lambda it: it.active == 0)


def test_threads_may_share_one_model(fake: FakeUpstream) -> None:
    model = model_at(fake.base_url, "responses")

    def one(number: int) -> str:
        return model.complete(Prompt((PromptMessage("user", f"number {number}"),)), VARIANT, timeout=10).text

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(16))) == [f"You said: number {number}" for number in range(16)]

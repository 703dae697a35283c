"""When a background call retries, and what a status means."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.openai import failures
from chatmemory.llm.openai.failures import FAILURES, REST_SECONDS, Breaker, retry_after_in
from chatmemory.llm.openai.reading import error_in_body


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:07 GMT"}, 7.0),
        ({"retry-after": "Thursday, 01-Jan-26 00:00:07 GMT"}, 7.0),
        ({"retry-after": "Wed, 31 Dec 2025 23:59:00 GMT"}, 0.0),
        ({"retry-after": "Thu, 99 Jan 2026 00:00:07 GMT"}, None),
        ({"x-ratelimit-reset": "1767225607000"}, 7.0),
        ({"x-ratelimit-reset": "1767225607"}, 7.0),
        ({"x-ratelimit-reset": "7", "retry-after": "3"}, 3.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_in(headers, "", now=1767225600.0) == seconds


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        # Gemini
        ({"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]}, 7),
        ({"message": "Quota exceeded. Please retry in 38.525s."}, 38.525),
        ({"message": "Rate limit reached. Please try again in 7s. Visit https://…"}, 7),  # OpenAI, Groq
        ({"message": "Please try again in 1m7.5s."}, 67.5),
        ({"message": "Please try again in 6m0s."}, 360),
        ({"message": "Please try again in 20ms."}, 0.02),
        ({"message": "Please retry after 7 seconds."}, 7),  # Azure
        ({"message": "Too many requests, wait for 2 minutes"}, 120),
        ({"message": "Request was throttled. Expected available in 7 seconds."}, 7),
        ({"message": "You have exhausted your capacity. Your quota will reset after 7s."}, 7),
        ({"message": "Slow down", "retry_after": 7}, 7),
        ({"message": "Slow down", "metadata": {"retryAfter": "7"}}, 7),
        ({"message": "Slow down", "metadata": {"retry_after_seconds": 7}}, 7),
        ({"message": "Slow down", "retryAfterMs": 7000}, 7),
        ({"message": "try again in 9h"}, 32400),
        ("Try again in 7 seconds", 7),
        ({"message": "Please try again later."}, None),
        ({"message": "You exceeded 7 requests, try again"}, None),
        (None, None),
    ],
)
def test_a_time_to_wait_in_the_body_is_read(error: object, seconds: float | None) -> None:
    for body in (error, {"error": error}, {"error": "Model is loading", "estimated_time": seconds, "about": error}):
        assert retry_after_in({}, json.dumps(body), now=1767225600.0) == pytest.approx(seconds)
    assert retry_after_in({"retry-after": "3"}, json.dumps(error), now=1767225600.0) == 3


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Conversation roles must alternate"}},
        {"error": "Conversation roles must alternate"},
        {"detail": "Conversation roles must alternate"},
        {"detail": [{"msg": "Conversation roles must alternate", "input": {"messages": []}}]},
        {"object": "error", "message": "Conversation roles must alternate", "code": 400},
        [
            {
                "error": {
                    "code": 400,
                    "message": "Conversation roles must alternate",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        "Conversation roles must alternate",
    ],
)
def test_the_reason_in_a_body_of_any_shape_is_found(body: object) -> None:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    assert failures.from_status(400, error_in_body(raw)).reason.upstream_reason == "Conversation roles must alternate"


@pytest.mark.parametrize(
    ("status", "error", "code", "retry"),
    [
        (500, None, "upstream_error", True),
        (503, {}, "upstream_error", True),
        (429, {"code": "rate_limit_exceeded"}, "upstream_error", True),
        (429, {"code": "insufficient_quota"}, "upstream_error", False),
        (401, {"message": "bad key sk-123"}, "upstream_error", False),
        (404, None, "upstream_error", False),
        (400, {"code": "context_length_exceeded"}, "context_length_exceeded", False),
        # vLLM: the code is a bare number, the message has the reason
        (
            400,
            {"code": 400, "message": "This model's maximum context length is 8 tokens"},
            "context_length_exceeded",
            False,
        ),
        (400, {"code": "content_filter"}, "refused", False),  # Azure
        (500, {"message": "maximum context length"}, "context_length_exceeded", False),
        (400, "maximum context length", "context_length_exceeded", False),
        (400, ["odd"], "upstream_error", False),
    ],
)
def test_a_status_becomes_a_code_and_a_sentence_without_the_upstreams_words(
    status: int, error: object, code: str, retry: bool
) -> None:
    failure = failures.from_status(status, error)
    assert (failure.reason.code, failure.may_retry) == (code, retry)
    assert "sk-" not in str(failure)
    if code == "upstream_error":
        assert str(status) in str(failure)


@pytest.mark.parametrize(
    ("status", "code", "after", "expected"),
    [
        (429, "", 7.0, 7),
        (503, "", 7.0, 7),
        (429, "", 0.2, 1),
        (429, "", 7.5, 8),
        (429, "", float("inf"), 600),
        (429, "", None, None),
        (401, "", 7.0, None),
        (429, "insufficient_quota", 7.0, None),
    ],
)
def test_a_time_to_wait_is_whole_bounded_and_only_where_a_retry_may_help(
    status: int, code: str, after: float | None, expected: int | None
) -> None:
    assert failures.from_status(status, {"code": code}, after=after).reason.retry_after == expected


@pytest.mark.parametrize(
    "code", ["sk-leak", "what the user said", "https://evil.example/", "a" * 33, "_".join("a" * 9)]
)
def test_a_code_that_may_be_anything_is_not_repeated(code: str) -> None:
    assert failures.from_report({"code": code, "type": "server_error"}).upstream_code == "server_error"
    assert failures.from_report({"code": "BadRequestError"}).upstream_code == "BadRequestError"


@given(st.lists(st.tuples(st.floats(0, 5), st.booleans()), max_size=200))
def test_a_dead_server_is_asked_seldom_and_one_that_answers_always(steps: list[tuple[float, bool]]) -> None:
    breaker, now, asked, in_a_row = Breaker(), 0.0, list[float](), 0
    for seconds, goes_well in steps:
        now += seconds
        allowed = breaker.allows(now)
        assert allowed or in_a_row >= FAILURES
        if not allowed:
            continue
        if in_a_row >= FAILURES:
            assert now - asked[-1] >= REST_SECONDS
            assert not breaker.allows(now), "one finds out for all"
        asked.append(now)
        in_a_row = 0 if goes_well else in_a_row + 1
        if goes_well:
            breaker.succeeded()
        else:
            assert breaker.failed(now) is (in_a_row == FAILURES), "told once"

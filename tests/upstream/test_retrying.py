"""When a background call retries, what a status means, and what is told of an upstream's own words about a request."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.openai import failures
from chatmemory.llm.openai.failures import FAILURES, REST_SECONDS, Breaker, retry_after_in
from chatmemory.llm.openai.reading import error_in_body
from chatmemory.llm.protocol import Prompt, PromptMessage


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
        ({"x-ratelimit-reset-tokens-minute": "33.1", "x-ratelimit-reset-requests-day": "9000"}, 33.1),  # Cerebras
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


REJECTED = "The model provider rejected the request (400)"
PROMPT = Prompt((PromptMessage("user", "My PIN is 4711 and my dog's name is Rex."),))


@pytest.mark.parametrize(
    ("wrote", "told"),
    [
        (
            "Conversation roles must alternate user/assistant/user/assistant/...",
            f"{REJECTED}: Conversation roles must alternate user/assistant/user/assistant/...",
        ),
        ("This model's context doesn't hold it", f"{REJECTED}: This model's context doesn't hold it"),
        ("Bad input 'my dog' in \"PIN is\" of `4711`", f"{REJECTED}: Bad input … in … of …"),
        ("[{'input': 'My PIN is 47", f"{REJECTED}: [{{…: …"),
        ("Bad input: My PIN is 4711 and more", f"{REJECTED}."),
        (
            "Bad \n field; see http://10.0.0.7/x, key sk-abc123456 of 10.1.2.3:80",
            f"{REJECTED}: Bad field; see … key … of …",
        ),
        ("", f"{REJECTED}."),
    ],
)
def test_rejection_reason_has_no_quotations(wrote: str, told: str) -> None:
    error = failures.from_status(400, {"message": wrote}).reason
    assert failures.with_quotable_reason(error, PROMPT).sentence == told
    assert not failures.from_status(401, {"message": wrote}).reason.upstream_reason


TOO_LONG = """\
prompt is too long: 205000 tokens > 200000 maximum
The input token count (40000) exceeds the maximum number of tokens allowed (32768).
Input length 40000 exceeds the maximum allowed input length of 32768 tokens
Input is too long for requested model.
This model's maximum prompt length is 131072 but the request contains 140000 tokens.
Range of input length should be [1, 30720]
the request exceeds the available context size (4096 tokens)
Your request exceeded model token limit: 131072
`inputs` tokens + `max_new_tokens` must be <= 4096.
`inputs` must have less than 4095 tokens. Given: 5000
Please reduce the length of the messages or completion.
This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.
input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000
The decoder prompt (length 5000) is longer than the maximum model length of 4096.
Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.
prompt token count of 140000 exceeds the limit of 128000
Request body too large for gpt-4o model. Max size: 8000 tokens.
too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000
Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length
Request too large for model `x` on tokens per minute: Limit 6000, Requested 7000, please reduce your message size
prompt too long; exceeded max context length by 12 tokens
Prompt exceeds max length
Input length (5000) exceeds the maximum allowed length (4096). Use a shorter input or enable truncation.
input is too large to process. increase the physical batch size
Request length 71599 + 2048 is greater than max_seq_len 65536
length of prompt_tokens (40000) must be less than max_seq_len (32768).
The decoder prompt (length 5000) is longer than the maximum model length. For images, the number depends on their size.
unable to process request: the context window is full.
Prompt 超长
Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000. See /account/rate-limits
"""
FLAGGED = """\
Content Exists Risk
Input text data may contain inappropriate content.
Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO
Invalid prompt: your prompt was flagged as potentially violating our usage policy.
The request was rejected because it was considered high risk
The response was filtered due to the prompt triggering our content management policy.
input contains sensitive words: [x]
"""
OTHERWISE = """\
max_tokens is too large: 100000. This model supports at most 16384 completion tokens
Input validation error: `max_new_tokens` must be <= 512
Input image exceeds the maximum size of 5 MB
Invalid 'tools[0].function.name': string too long.
Too many messages in a row of one role
Too many tokens, please wait before trying again.
Tokens per minute limit exceeded - too many tokens processed.
This request would exceed your rate limit of 40,000 input tokens per minute. Please reduce the prompt length.
The maximum tokens you requested exceeds the model limit of 4096.
Number of tools exceeds the limit of 128
"""


@pytest.mark.parametrize(
    ("wrote", "code"),
    [
        *((wrote, "context_length_exceeded") for wrote in TOO_LONG.splitlines()),
        *((wrote, "refused") for wrote in FLAGGED.splitlines()),
        *((wrote, "upstream_error") for wrote in OTHERWISE.splitlines()),
    ],
)
def test_prompt_that_is_too_long_or_refused_is_known_by_its_wording_under_any_status(wrote: str, code: str) -> None:
    for error in ({"message": wrote, "code": 400}, wrote, {"detail": [{"msg": wrote}]}):
        for status in (400, 403, 413, 422, 429, 500):
            failure = failures.from_status(status, error)
            assert failure.reason.code == code
            assert not failure.may_retry or code == "upstream_error"

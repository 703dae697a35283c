"""`POST /v1/embeddings`, with OpenAI's own SDK: passed on to the server's embeddings model, within limits."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from openai import OpenAI

from conversations.accounts.end_users import create_app
from conversations.accounts.models import Allowance, PassingCall, Scope
from tests.support.fakes.embeddings import vector
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

TEXTS = ["The locker of the boat", "A combination"]
MODEL = "embed-small"


@pytest.fixture(autouse=True)
def model(upstream: FakeUpstream, settings: Any) -> None:
    settings.MEMORY_EMBEDDINGS_MODEL = MODEL


@pytest.fixture
def ask(alice: Client) -> Iterator[OpenAI]:
    """OpenAI's own client, but not in its strict mode, which refuses the `base64` that it asks for."""
    with OpenAI(base_url=f"{alice.base}/v1", api_key=alice.token, max_retries=0) as made:
        yield made


def allowance(name: str = "alice") -> tuple[int, int, int, int]:
    """Requests of the minute, tokens of the day, and what is still reserved of both."""
    row = Allowance.objects.get(user__username=name)
    return row.minute_requests, row.day_tokens, row.day_reserved, row.open_streams


@pytest.mark.parametrize("encoding", ["base64", "float"])
def test_vectors_are_the_upstreams(ask: OpenAI, upstream: FakeUpstream, encoding: Any) -> None:
    """The SDK asks for `base64` unless it is told otherwise."""
    asked: Any = {} if encoding == "base64" else {"encoding_format": encoding}
    raw = ask.embeddings.with_raw_response.create(model=MODEL, input=TEXTS, dimensions=8, user="u-1", **asked)
    made = raw.parse()
    assert made.model == MODEL
    assert {one.index: one.embedding for one in made.data} == {
        at: pytest.approx(vector(text, 8)) for at, text in enumerate(TEXTS)
    }
    assert made.usage.total_tokens == 7
    # A compatible server may not know `user`.
    assert upstream.embeddings.last_body == {
        "model": MODEL,
        "input": TEXTS,
        "dimensions": 8,
        "encoding_format": encoding,
    }
    for name in ("x-ratelimit-remaining-requests", "x-ratelimit-remaining-tokens", "openai-version"):
        assert raw.headers[name], name
    assert allowance() == (1, 7, 0, 0)


@pytest.mark.parametrize("given", ["A text", [15339, 2420], [[15339], [2420, 7]]])
def test_every_kind_of_input_is_passed_on(ask: OpenAI, upstream: FakeUpstream, given: Any) -> None:
    made = ask.embeddings.create(model=MODEL, input=given)
    assert upstream.embeddings.last_body["input"] == (given if isinstance(given[0], list) else [given])
    assert len(made.data[0].embedding) == 4, "the model's own number"


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"model": "text-embedding-ada-002"}, "model", "model_not_found"),
        ({"input": None}, "input", "invalid_type"),
        ({"input": []}, "input", "invalid_type"),
        ({"input": [1, "a"]}, "input", "invalid_type"),
        ({"input": [True]}, "input", "invalid_type"),
        ({"input": ["a"] * 2049}, "input", "array_above_max_length"),
        ({"dimensions": 0}, "dimensions", "integer_below_min_value"),
        ({"dimensions": 10**30}, "dimensions", "integer_above_max_value"),
        ({"encoding_format": "int8"}, "encoding_format", "invalid_value"),
        ({"model": 7}, "model", "invalid_type"),
        ({"input_type": "query"}, "input_type", "unsupported_parameter"),
    ],
)
def test_a_body_that_is_wrong_is_refused(
    alice: Client, upstream: FakeUpstream, change: dict[str, Any], param: str, code: str
) -> None:
    answer = alice.post("embeddings", json={"model": MODEL, "input": "A text", **change})
    error = answer.json()["error"]
    status = 404 if code == "model_not_found" else 400
    assert (answer.status_code, error["param"], error["code"]) == (status, param, code), error
    assert status == 400 or f"Models: `{MODEL}`" in error["message"]
    assert upstream.embeddings.asked == []


@pytest.mark.parametrize(
    ("how", "status", "code", "spent"),
    [
        ("status", 502, "upstream_error", 0),
        ("html", 502, "upstream_error", 0),
        ("fewer", 502, "upstream_error", 0),
        ("rejected", 400, "invalid_value", 0),
        ("huge", 400, "array_above_max_length", 7),
    ],
)
def test_a_failure_of_the_upstream_is_an_error_of_openais(
    alice: Client, upstream: FakeUpstream, how: str, status: int, code: str, spent: int
) -> None:
    upstream.embeddings.how = how
    answer = alice.post("embeddings", json={"model": MODEL, "input": TEXTS})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code), error
    assert how != "rejected" or error["message"].endswith("An input is empty.")
    assert allowance()[1:] == (spent, 0, 0)
    assert not PassingCall.objects.exists()


@pytest.mark.parametrize(
    ("limit", "code"),
    [("REQUESTS_PER_MINUTE", "rate_limit_exceeded"), ("TOKENS_PER_DAY", "insufficient_quota")],
)
def test_a_call_over_a_limit_is_refused(
    alice: Client, upstream: FakeUpstream, settings: Any, limit: str, code: str
) -> None:
    setattr(settings, f"LIMIT_{limit}", 1 if limit == "REQUESTS_PER_MINUTE" else 8)
    answers = [alice.post("embeddings", json={"model": MODEL, "input": TEXTS}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert answers[1].json()["error"]["code"] == code
    assert len(upstream.embeddings.asked) == 1


def test_an_app_embeds_for_an_end_user_whose_limits_count(
    client_of: Callable[..., Client], upstream: FakeUpstream
) -> None:
    shop = client_of(create_app("shop").user, Scope.ACT_FOR_USERS)
    body = {"model": MODEL, "input": TEXTS}
    assert "must name an end user" in shop.post("embeddings", json=body).text
    assert shop.post("embeddings", json={**body, "user": "anna"}).status_code == 200
    assert shop.post("embeddings", json=body, headers={"X-Chatmemory-User": "ben"}).status_code == 200
    assert [allowance(f"shop/{name}")[:2] for name in ("anna", "ben")] == [(1, 7), (1, 7)]
    assert User.objects.filter(end_user__isnull=False).count() == 2

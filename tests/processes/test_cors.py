"""Scripts of other websites: those of `CORS_ALLOWED_ORIGINS` may call the API with a token, and nothing else."""

from typing import Any

import httpx
import pytest

from tests.support.live_server import parse_events
from tests.support.processes import Product

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ALLOWED, OTHER = "https://app.example.com", "https://evil.example.com"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,idempotency-key,x-stainless-os",
}


def cors(answer: httpx.Response) -> dict[str, str]:
    start = "access-control-"
    return {name.removeprefix(start): value for name, value in answer.headers.items() if name.startswith(start)}


def test_scripts_of_allowed_origins_alone_may_call_the_api(product: Product) -> None:
    product.server(CORS_ALLOWED_ORIGINS=f"{ALLOWED}, http://localhost:5173")
    client = product.client("alice")
    asked = client.http.options("/v1/message/first", headers={"Origin": ALLOWED, **PREFLIGHT})
    assert asked.status_code == 200
    told = cors(asked)
    assert told["allow-origin"] == ALLOWED
    assert told["allow-headers"] == "authorization, *"
    assert "POST" in told["allow-methods"]
    assert "allow-credentials" not in told
    with client.http.stream(
        "POST", "/v1/message/first", json={"message": "Hello"}, headers={"Origin": ALLOWED}
    ) as answer:
        assert cors(answer) == {"allow-origin": ALLOWED, "expose-headers": "*"}
        assert answer.headers["vary"] == "origin"
        assert answer.headers["x-request-id"]
        assert [*parse_events(answer.iter_lines())][-1].name == "message.completed"
    refused = client.http.get("/v1/chats", headers={"Origin": ALLOWED, "Authorization": "Bearer no"})
    assert (refused.status_code, cors(refused)["allow-origin"]) == (401, ALLOWED)
    too_large: Any = {"content": b" " * 2_200_000, "headers": {"Origin": ALLOWED, "Content-Type": "application/json"}}
    for where in ("/v1/chats", "/mcp", "/mcp/"):
        refused = client.http.post(where, **too_large)
        assert (refused.status_code, cors(refused)["allow-origin"]) == (413, ALLOWED)
    for answer in (
        client.http.post("/healthz", **too_large),
        client.http.options("/v1/message/first", headers={"Origin": OTHER, **PREFLIGHT}),
        client.http.get("/v1/chats", headers={"Origin": OTHER}),
        client.http.get("/v1/chats"),
        client.http.get("/playground/", headers={"Origin": ALLOWED}),
        client.http.get("/healthz", headers={"Origin": ALLOWED}),
    ):
        assert cors(answer) == {}


def test_without_the_setting_no_origin_is_allowed(product: Product) -> None:
    product.server()
    client = product.client("alice")
    preflight = client.http.options("/v1/message/first", headers={"Origin": ALLOWED, **PREFLIGHT})
    answer = client.http.get("/v1/chats", headers={"Origin": ALLOWED})
    assert cors(preflight) == cors(answer) == {}
    assert "origin" not in answer.headers.get("vary", "")

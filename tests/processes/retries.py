"""An OpenAI client whose server is killed while it waits for a completion: it tries again, and says so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from conversations.models import ActiveReply
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product
from tests.support.waiting import wait_for

LEASES = {"REPLY_CHECKPOINT_SECONDS": "0.1", "REPLY_LEASE_SECONDS": "2"}
"""Settings with which a reply is soon recognized as abandoned after its server is gone."""
CUT_OFF = "Bad Gateway: /v1/chat/completions"
"""What the next server logs for a retry that finds the interrupted reply."""


def answered_after_a_kill(
    product: Product, fake: FakeUpstream, server: Any, headers: dict[str, str], body: dict[str, Any]
) -> httpx.Response:
    """Return a second server's completion for `body`, after the first is killed in the middle of it."""
    fake.hold("stream")
    with ThreadPoolExecutor() as pool:
        lost = pool.submit(_ask, product, headers, body)
        wait_for(ActiveReply.objects.exists, "the turn has begun")
        product.kill(server)
        assert isinstance(lost.exception(), httpx.TransportError)
    fake.release("stream")
    product.server()

    def again() -> httpx.Response | None:
        answer = _ask(product, {**headers, "x-stainless-retry-count": "1"}, body)
        return answer if answer.status_code == 200 else None

    found: httpx.Response = wait_for(again, "the turn is answered")
    return found


def _ask(product: Product, headers: dict[str, str], body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{product.url}/v1/chat/completions", json=body, headers=headers, timeout=60)

"""Clients of OpenAI's API against servers of our own: one whose server is killed in mid-turn, and two that race.

The upstream refuses every prompt in which a call and its output are separated (`tests.support.fakes.tools`).
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from conversations.models import ActiveReply, Chat
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TOOLS = [
    {"type": "function", "function": {"name": "get_reservation", "parameters": {"type": "object", "properties": {}}}}
]
LEASES = {"REPLY_CHECKPOINT_SECONDS": "0.1", "REPLY_LEASE_SECONDS": "2"}
"""Settings with which a reply is soon recognized as abandoned, but not before its next server has started."""
CUT_OFF = "Bad Gateway: /v1/chat/completions"
"""What the next server logs for a retry that finds the interrupted reply."""


def test_a_tool_turn_survives_the_kill_of_its_server(product: Product, fake: FakeUpstream) -> None:
    product.env |= LEASES
    product.expected.add(CUT_OFF)
    server = product.server()
    client = product.client()
    messages: list[Any] = [{"role": "user", "content": "What did I book?"}]

    def ask(**headers: str) -> httpx.Response:
        return httpx.post(
            f"{product.url}/v1/chat/completions",
            json={"model": "arco", "messages": messages, "tools": TOOLS},
            headers={"Authorization": f"Bearer {client.token}", **headers},
            timeout=60,
        )

    calls = [("call_1", "get_reservation", "{}")]
    fake.script("stream", f"normal?tools={quote(json.dumps(calls), safe='')}")
    messages.append(ask().json()["choices"][0]["message"])
    messages.append({"role": "tool", "tool_call_id": "call_1", "content": "RK-4001"})
    fake.hold("stream")
    with ThreadPoolExecutor() as pool:
        lost = pool.submit(ask)
        wait_for(ActiveReply.objects.exists, "the turn has begun")
        product.kill(server)
        assert isinstance(lost.exception(), httpx.TransportError)
    fake.release("stream")
    product.server()
    retry = {"x-stainless-retry-count": "1"}
    answered = wait_for(lambda: (again := ask(**retry)).status_code == 200 and again, "the turn is answered")
    assert answered.json()["choices"][0]["message"]["content"].startswith("You said: ")
    chat = Chat.objects.get()
    standing = chat.messages.filter(superseded_by=None).exclude(status="failed").order_by("seq")
    assert list(standing.values_list("role", flat=True)) == [
        "user", "assistant", "tool_call", "tool", "assistant",
    ]  # fmt: skip
    assert chat.open_seq == 0
    assert fake.faults == []


@pytest.mark.parametrize("name", ["", "c1"], ids=["unnamed", "named"])
def test_racing_clients_branch_or_get_409(product: Product, fake: FakeUpstream, name: str) -> None:
    product.server()
    product.server()
    client = product.client()
    headers = {"Authorization": f"Bearer {client.token}", **({"x-chat-id": name} if name else {})}

    def ask(url: str, messages: list[dict[str, str]]) -> httpx.Response:
        body = {"model": "arco", "messages": messages}
        return httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=60)

    said = [{"role": "user", "content": "One"}]
    first = ask(product.url, said).json()["choices"][0]["message"]
    said += [{"role": "assistant", "content": first["content"]}]
    fake.hold("stream")
    with ThreadPoolExecutor() as pool:
        asked = [
            pool.submit(ask, url, [*said, {"role": "user", "content": question}])
            for url, question in zip(product.urls.values(), ("Two", "Other"), strict=True)
        ]
        if name:
            wait_for(lambda: any(one.done() for one in asked), "one of them is refused")
        else:
            wait_for(lambda: ActiveReply.objects.count() == len(asked), "both have begun")
        fake.release("stream")
        answers = [one.result() for one in asked]
    if name:
        refused = next(answer for answer in answers if answer.status_code == 409)
        assert refused.headers["x-should-retry"] == "true"
        assert Chat.objects.get().last_seq == 4
    else:
        decisions = {answer.headers["x-chatmemory-conversation"] for answer in answers}
        assert decisions == {"continued", "branched"}
        assert sorted(Chat.objects.values_list("last_seq", flat=True)) == [4, 4]

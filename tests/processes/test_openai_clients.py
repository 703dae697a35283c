"""A stock loop of OpenAI's SDK that sends everything each time, against servers and a worker of our own.

Recorded text under every policy, with folds; a client that trims; two clients that race; a server killed in mid-turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
import pytest
from openai import OpenAI

import conversations
from conversations.models import ActiveReply, Chat
from memory.models import ContextRecord
from memory.policies import POLICIES
from tests.processes.talking import settled
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SAMPLE = Path(conversations.__file__).parent / "samples" / "trip.json"


def exchanges() -> Iterator[tuple[str, str]]:
    """Yield the questions of the sample, each with its recorded reply."""
    said = [one for one in json.loads(SAMPLE.read_text("utf-8"))["messages"] if one["role"] != "system"]
    for asked, told in zip(said[::2], said[1::2], strict=True):
        yield asked["content"], told["content"]


def sdk(product: Product, user: str = "alice") -> OpenAI:
    client = product.client(user)
    return OpenAI(base_url=f"{client.base}/v1", api_key=client.token, max_retries=0)


def played(product: Product, fake: FakeUpstream, *, keeps: int | None = None) -> tuple[Chat, list[str]]:
    """Play the sample, sending all of it each time, or the last `keeps` messages; return the chat and the decisions."""
    messages: list[Any] = []
    decisions: list[str] = []
    with sdk(product) as ask:
        for question, reply in exchanges():
            fake.script("stream", f"normal?text={quote(reply, safe='')}")
            messages.append({"role": "user", "content": question})
            sent = messages[-keeps:] if keeps else messages
            raw = ask.chat.completions.with_raw_response.create(model="arco", messages=sent)
            assert raw.parse().choices[0].message.content == reply
            messages.append({"role": "assistant", "content": reply})
            decisions.append(raw.headers["x-chatmemory-conversation"])
            chat_id = UUID(raw.headers["x-chatmemory-conversation-id"])
            wait_for(partial(settled, chat_id), "a fold between turns", timeout=60)
    return Chat.objects.get(), decisions


@pytest.mark.parametrize("policy", first_of(sorted(POLICIES)))
def test_a_client_that_sends_everything_has_one_chat_and_every_prompt_fits(
    product: Product, fake: FakeUpstream, policy: str
) -> None:
    product.worker()
    product.server(MEMORY_POLICY=policy)
    chat, decisions = played(product, fake)
    assert decisions == ["new", *["continued"] * (len(decisions) - 1)]
    assert len(decisions) > 40
    records = list(ContextRecord.objects.filter(reply__chat=chat).order_by("reply__seq"))
    assert {record.unrepresented for record in records} == {0}
    assert all(record.tokens <= record.budget for record in records)
    assert {record.policy for record in records} == {policy}
    assert policy == "card" or records[-1].revision > 0, "older turns were folded"


def test_a_client_that_trims_its_history_has_one_chat(product: Product, fake: FakeUpstream) -> None:
    product.worker()
    product.server()
    chat, decisions = played(product, fake, keeps=7)  # three turns and the question
    assert set(decisions[1:]) == {"continued"}
    assert chat.last_seq == 2 * len(decisions)


@pytest.mark.parametrize("name", ["", "c1"], ids=["unnamed", "named"])
def test_of_two_racing_clients_one_branches_or_gets_409(
    product: Product, fake: FakeUpstream, name: str
) -> None:
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

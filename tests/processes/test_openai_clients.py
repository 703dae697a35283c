"""Clients of OpenAI's SDK against servers and a worker of our own: one that trims its history, two that race.

`test_openai_tools` has one that sends everything each time, through folds, and a server killed in mid-turn.
"""

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
from tests.processes.talking import settled
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


def test_a_client_that_trims_its_history_has_one_chat(product: Product, fake: FakeUpstream) -> None:
    product.worker()
    product.server()
    client = product.client()
    messages: list[Any] = []
    decisions: list[str] = []
    with OpenAI(base_url=f"{client.base}/v1", api_key=client.token, max_retries=0) as ask:
        for question, reply in exchanges():
            fake.script("stream", f"normal?text={quote(reply, safe='')}")
            messages.append({"role": "user", "content": question})
            kept = messages[-7:]  # three turns and the question
            raw = ask.chat.completions.with_raw_response.create(model="arco", messages=kept)
            assert raw.parse().choices[0].message.content == reply
            messages.append({"role": "assistant", "content": reply})
            decisions.append(raw.headers["x-chatmemory-conversation"])
            chat_id = UUID(raw.headers["x-chatmemory-conversation-id"])
            wait_for(partial(settled, chat_id), "a fold between turns", timeout=60)
    assert (decisions[0], set(decisions[1:])) == ("new", {"continued"})
    assert Chat.objects.get().last_seq == 2 * len(decisions) > 80


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

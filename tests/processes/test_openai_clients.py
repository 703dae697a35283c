"""Clients of OpenAI's SDK against servers and a worker of our own: one that answers tool calls, and two that race.

Sixty turns under every policy; a server killed in mid-turn. The upstream refuses every prompt in which a call and its
output are separated (`tests.support.fakes.tools`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
import pytest
from openai import OpenAI

from conversations.models import ActiveReply, Chat
from memory.models import ContextRecord
from memory.policies import POLICIES
from tests.processes.talking import settled
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TURNS = 60
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("get_reservation", "search_flights")
]
LEASES = {"REPLY_CHECKPOINT_SECONDS": "0.1", "REPLY_LEASE_SECONDS": "2"}
"""Settings with which a reply is soon recognized as abandoned after its server is gone."""
CUT_OFF = "Bad Gateway: /v1/chat/completions"
"""What the next server logs for a retry that finds the interrupted reply."""


def code(number: int) -> str:
    """Return the code to be remembered from one output."""
    return f"RK-{4000 + number}"


def output(number: int) -> str:
    """Return a tool's output: some are short, some far longer than memory has room for."""
    flights = [
        {"flight_number": f"HAT{100 + at}", "date": f"2024-05-{1 + at % 28:02}", "price": 80 + at * 11}
        for at in range(1 + (number % 5) * 16)
    ]
    return json.dumps({"reservation_id": code(number), "membership": f"gold-{number}", "flights": flights})


def question(number: int) -> str:
    return f"Please look into my trip number {number} and tell me what you find."


def answer(number: int) -> str:
    return f"I have found trip number {number}. The cabin can still be changed until the evening before departure."


class Agent:
    """A client that calls tools on request, and sends the whole conversation each time."""

    def __init__(self, product: Product, fake: FakeUpstream) -> None:
        client = product.client()
        self.ask = OpenAI(base_url=f"{client.base}/v1", api_key=client.token, max_retries=0)
        self.fake = fake
        self.turns: list[list[Any]] = []
        self.decisions: list[str] = []
        self._ids = count(1)

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.ask.close()

    @property
    def sent(self) -> list[Any]:
        return [message for turn in self.turns for message in turn]

    def turn(self, number: int) -> None:
        """Ask, answer one to three calls at once or in rounds, and read the reply."""
        self.turns.append([{"role": "user", "content": question(number)}])
        for calls in self._rounds(number):
            self.fake.script("stream", f"normal?tools={quote(json.dumps(calls), safe='')}")
            self.turns[-1].append(self._asked())
            for call_id, *_ in calls:
                self.turns[-1].append({"role": "tool", "tool_call_id": call_id, "content": output(number)})
        self.fake.script("stream", f"normal?text={quote(answer(number), safe='')}")
        self.turns[-1].append(self._asked())

    def ask_for(self, text: str) -> None:
        """Ask a question that the upstream echoes."""
        self.turns.append([{"role": "user", "content": text}])
        self.turns[-1].append(self._asked())

    def _rounds(self, number: int) -> Iterator[list[tuple[str, str, str]]]:
        """Every third turn calls nothing; some call twice at once, some one after the other."""
        if number % 3 == 2:
            return
        arguments = json.dumps({"id": f"trip-{number}"})
        first = [(f"call_{next(self._ids)}", "get_reservation", arguments) for _ in range(1 + number % 2)]
        yield first
        if number % 4 == 0:
            yield [(f"call_{next(self._ids)}", "search_flights", arguments)]

    def _asked(self) -> Any:
        raw = self.ask.chat.completions.with_raw_response.create(model="arco", messages=self.sent, tools=TOOLS)
        self.decisions.append(raw.headers["x-chatmemory-conversation"])
        chat_id = UUID(raw.headers["x-chatmemory-conversation-id"])
        wait_for(partial(settled, chat_id), "a fold between turns", timeout=60)
        return raw.parse().choices[0].message.model_dump(exclude_none=True)


@pytest.mark.parametrize("policy", first_of(sorted(POLICIES)))
def test_prompts_keep_calls_and_outputs_together_through_folds(
    product: Product, fake: FakeUpstream, policy: str
) -> None:
    product.worker()
    product.server(MEMORY_POLICY=policy)
    with Agent(product, fake) as agent:
        for number in range(TURNS):
            agent.turn(number)
        chat = Chat.objects.get()
        assert agent.decisions == ["new", *["continued"] * (len(agent.decisions) - 1)]
        assert len(agent.decisions) > TURNS * 3 // 2
        assert chat.open_seq == 0
        records = list(ContextRecord.objects.filter(reply__chat=chat).order_by("reply__seq"))
        assert {record.unrepresented for record in records} == {0}
        assert all(record.tokens <= record.budget for record in records)
        assert policy == "card" or records[-1].revision > 0, "older turns were folded"
        agent.fake.clear()
        agent.ask_for("Which reservation had the membership gold-3?")
    sent = fake.calls("stream")[-1].text
    assert policy == "card" or code(3) in sent, "what a tool gave back long ago"
    assert fake.faults == []


def test_a_tool_turn_survives_the_kill_of_its_server(product: Product, fake: FakeUpstream) -> None:
    product.env |= LEASES
    product.expected.add(CUT_OFF)
    server = product.server()
    client = product.client()
    messages: list[Any] = [{"role": "user", "content": question(1)}]

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
    messages.append({"role": "tool", "tool_call_id": "call_1", "content": output(1)})
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

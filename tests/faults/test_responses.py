"""Many clients of `/v1/responses` share conversations while servers are killed: each response is kept, none is twice.

The clients repeat broken requests under the same key, and resume broken streams after the last event that they read.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import httpx
import pytest

from conversations.models import ActiveReply, ChatCompletion, Message
from tests.faults.bench.bench import Load
from tests.support.exhaustive import effort
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

CLIENTS, CONVERSATIONS, SECONDS = effort((15, 6, 10), (50, 20, 300))
LONG = 40
"""Responses after which a conversation is left for a new one."""
PATIENCE = 60.0
"""Seconds in which every response must end, whatever happens to the servers."""
WORDS = "we went over the plan for the garden once more and agreed on the next small step"
_numbers = count(1)


@dataclass
class Conversation:
    """A conversation that clients share: its name, and the newest response that they know."""

    name: str = ""
    newest: str = ""
    left: int = 0


@dataclass
class Asked:
    """A question, and what its client was told."""

    question: str
    id: str = ""
    number: int = -1
    """That of the last event."""
    said: str = ""
    final: dict[str, Any] = field(default_factory=dict)

    def hear(self, event: Mapping[str, Any]) -> None:
        assert event["sequence_number"] > self.number, (self, event)
        self.number = event["sequence_number"]
        if event["type"] == "response.output_text.delta":
            self.said += event["delta"]
        elif event["type"] in ("response.created", "response.completed", "response.failed"):
            self.id = event["response"]["id"]
            if event["type"] != "response.created":
                self.final = event["response"]
                whole, has_failed = text_of(self.final), self.final["status"] == "failed"
                assert self.said == whole or (has_failed and self.said.startswith(whole)), self  # a crash lost the rest


class Talker:
    """A client that reaches any of the servers."""

    def __init__(self, name: str, http: httpx.Client, urls: list[str], shared: list[Conversation]) -> None:
        self.name, self.http, self.urls, self.shared = name, http, urls, shared
        self.random, self.asked, self.seen = Random(name), list[Asked](), Counter[str]()

    def ask(self) -> None:
        """Continue a conversation by its name or after its newest response; return when the response has ended."""
        time.sleep(self.random.uniform(0, 2))
        place, question = self.random.choice(self.shared), f"{self.name} asks {next(_numbers)}: {WORDS}"
        if not place.left:
            place.name, place.newest, place.left = f"talk {next(_numbers)}", "", LONG
        place.left -= 1
        by_id = place.newest and self.random.random() < 0.5
        where = {"previous_response_id": place.newest} if by_id else {"conversation": place.name}
        body = {"model": "arco", "input": question, "stream": self.random.random() < 0.5, **where}
        self.asked.append(asked := Asked(question))
        deadline = time.monotonic() + PATIENCE
        while not asked.final:
            assert time.monotonic() < deadline, f"no end in time: {asked}"
            try:
                if asked.id:
                    query = {"stream": "true", "starting_after": asked.number}
                    self._send(asked, "GET", f"/{asked.id}", params=query)
                else:
                    self._send(asked, "POST", "", json=body, headers={"Idempotency-Key": question})
            except httpx.TransportError:
                self.seen["resumed" if asked.id else "repeated"] += 1
                time.sleep(0.05)
        self.seen[asked.final["status"]] += 1
        if asked.final["status"] == "completed":
            place.newest = asked.id

    def _send(self, asked: Asked, method: str, path: str, **options: Any) -> None:
        with self.http.stream(method, f"{self.random.choice(self.urls)}/v1/responses{path}", **options) as answer:
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                for line in answer.iter_lines():
                    if line.startswith("data: {"):
                        asked.hear(json.loads(line[6:]))
                return
            told = json.loads(answer.read())
        if answer.status_code == 200:
            asked.id, asked.final = told["id"], told
        elif told["error"]["code"] == "conversation_locked":
            self.seen["locked"] += 1
            time.sleep(int(answer.headers["retry-after"]))
        else:
            (asked.id,) = told["error"]["details"]["response"]  # it failed: its stream says with which text


def text_of(response: Mapping[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])


@pytest.mark.promise("P1", "P2", "P5")
def test_each_response_is_kept_and_none_is_twice(product: Product, fake: FakeUpstream) -> None:
    product.env |= {"REPLY_LEASE_SECONDS": "3", "LOG_LEVEL": "INFO"}
    product.expected = {"Bad Gateway: /v1/responses"}
    fake.behave("normal?rate=50")
    servers = [product.server(), product.server()]
    urls, shared = [*product.urls.values()], [Conversation() for _ in range(CONVERSATIONS)]
    talkers = [Talker(f"client {at}", product.client().http, urls, shared) for at in range(CLIENTS)]
    kills, end, chance = 0, time.monotonic() + SECONDS, Random(1)
    with Load(talkers, Talker.ask):
        while kills < len(servers) or time.monotonic() < end:
            time.sleep(chance.uniform(2, 8))
            at = kills % len(servers)
            product.kill(servers[at])
            servers[at], urls[at] = product.server(), product.url
            kills += 1
    wait_for(lambda: not ActiveReply.objects.exists(), "the end of all replies")
    every, reader = [asked for talker in talkers for asked in talker.asked], product.client()
    print(f"{len(every)} requests, {kills} kills, {dict(sum((talker.seen for talker in talkers), Counter()))}")
    for asked in every:
        assert reader.get(f"responses/{asked.id}").json() == asked.final
        assert asked.final["status"] == "failed" or text_of(asked.final) == f"You said: {asked.question}"
    replies = Message.objects.filter(pk__in=ChatCompletion.objects.values("message_id"))
    once = Counter(asked.question for asked in every)
    assert Counter(replies.values_list("reply_to__content", flat=True)) == once
    assert Counter(call.said[-1][1] for call in fake.calls("stream")) <= once

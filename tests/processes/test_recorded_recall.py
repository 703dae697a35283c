"""One recorded conversation under every policy, turn by turn over HTTP, with a worker and recall at its defaults.

Real conversation triggers recall, which filler does not; still, neither a turn nor the window may be left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

import pytest

import conversations
from memory.models import ContextRecord
from memory.policies import POLICIES
from tests.processes.talking import say, settled
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product, wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SAMPLE = Path(conversations.__file__).parent / "samples" / "trip.json"
RECALLED = 3
"""The minimum number of prompts, of some fifty, with recalled excerpts."""


def exchanges() -> Iterator[tuple[str, str]]:
    """Yield the questions of the sample, each with its recorded reply."""
    said = [one for one in json.loads(SAMPLE.read_text("utf-8"))["messages"] if one["role"] != "system"]
    for asked, told in zip(said[::2], said[1::2], strict=True):
        assert (asked["role"], told["role"]) == ("user", "assistant")
        yield asked["content"], told["content"]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_no_turn_is_left_out_while_others_come_back(
    product: Product, fake: FakeUpstream, policy: str
) -> None:
    product.worker()
    product.server()
    client = product.client()
    chat = UUID(client.post("chats", json={"policy": policy}).json()["id"])
    for question, reply in exchanges():
        fake.script("stream", f"normal?text={quote(reply, safe='')}")
        last = say(client, question, chat)[-1]
        assert (last.name, last.data["message"]["content"]) == ("message.completed", reply)
        wait_for(partial(settled, chat), "a fold between turns", timeout=60)

    records = list(ContextRecord.objects.filter(reply__chat=chat).order_by("reply__seq"))
    assert len(records) == len(list(exchanges())) > 40
    assert {record.unrepresented for record in records} == {0}
    assert all(record.tokens <= record.budget for record in records)
    recalled = [record for record in records if any(one["kind"] == "recall" for one in record.sections)]
    if policy != "card":  # its replies bring no card here, and its recall is off by default
        assert records[-1].revision > 0, "older turns were folded"
        assert len(recalled) >= RECALLED
    for before, record in pairwise(records):
        window = next(one for one in record.sections if one["kind"] == "window")
        assert str(before.pk) in window["message_ids"], "the newest turn is verbatim in every prompt"

"""Chats of other shapes: replies as long as assistants write them, and hundreds of short turns."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest

from conversations.models import Message
from memory.models import ContextRecord, ConversationBrief, SummaryRevision
from tests.processes.prompts import Seen, code, seen
from tests.processes.talking import settled, talk
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product, wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

BUDGET = 3000
LEFT_OUT = re.compile(r"\s*\[… \d+ tokens left out …\]\s*")


def _prompts(fake: FakeUpstream) -> list[Seen]:
    return [seen(request) for request in fake.calls("stream")]


def _cuts_are_logged(product: Product, chat_id: UUID) -> None:
    """Assert that the omissions of each record were logged, with the same figures, in the same order."""
    cut = [
        (record.clipped, record.dropped, record.unrepresented)
        for record in ContextRecord.objects.filter(reply__chat=chat_id).order_by("reply__seq")
        if record.clipped or record.dropped or record.unrepresented
    ]
    names = ("clipped", "window_turns_as_lines", "turns_left_out")
    logged: list[dict[str, Any]] = product.logged("context cut to its budget")
    assert [tuple(line[name] for name in names) for line in logged] == cut


def _is_cut_of(shown: str, said: str) -> bool:
    """Whether `shown` is the beginning and the end of `said`."""
    head, *_, tail = LEFT_OUT.split(shown)
    return LEFT_OUT.search(shown) is not None and said.startswith(head) and said.endswith(tail)


def test_replies_of_800_tokens(product: Product, fake: FakeUpstream) -> None:
    """Three of them already exceed the window's share: each is cut in the middle, the questions are not."""
    fake.behave("normal?deltas=800", lane="stream")
    product.worker()
    product.server()
    chat_id, _ = talk(product.client(), range(30), words=20, patient=True)
    wait_for(lambda: settled(chat_id), "the last fold")

    texts = list(Message.objects.filter(chat=chat_id).order_by("seq").values_list("role", "content"))
    for number, prompt in enumerate(_prompts(fake)):
        assert prompt.tokens <= BUDGET
        newest = texts[2 * number - len(prompt.verbatim) : 2 * number]
        assert [role for role, _ in prompt.verbatim] == ["user", "assistant"] * (len(newest) // 2), (
            "half a turn"
        )
        for (role, shown), (_, said) in zip(prompt.verbatim, newest, strict=True):
            assert shown == said or (role == "assistant" and _is_cut_of(shown, said))
        places = prompt.places
        assert set[str]().union(*places) == {code(earlier) for earlier in range(number)}
        assert sum(map(len, places)) == number, "a turn is there twice"
        if number >= 3:
            assert len(newest) >= 4, "two turns and a summary fit, so they are there"
    assert SummaryRevision.objects.filter(chat=chat_id).count() >= 4
    assert not ContextRecord.objects.exclude(unrepresented=0).exists()
    _cuts_are_logged(product, chat_id)


def test_turns_of_20_tokens(product: Product, fake: FakeUpstream) -> None:
    """Their lines fill the prompt long before the threshold is reached, so they are folded by that rule."""
    fake.behave("normal?text=Noted.", lane="stream")
    product.worker()
    product.server()
    wait_for(lambda: product.logged("swept"), "a worker at work")
    chat_id, _ = talk(product.client(), range(300), words=1, patient=True)
    wait_for(lambda: settled(chat_id), "the last fold")

    prompts = _prompts(fake)
    assert all(prompt.tokens <= BUDGET for prompt in prompts)
    newest = list(Message.objects.filter(chat=chat_id).order_by("-seq").values_list("role", "content")[2:8])
    assert list(prompts[-1].verbatim[-6:]) == newest[::-1]
    first = SummaryRevision.objects.get(chat=chat_id, version=1)
    assert first.tokens_before < 6000 - 3 * 30
    assert not ContextRecord.objects.exclude(unrepresented=0).exists()
    assert ConversationBrief.objects.get(pk=chat_id).folded_through_seq > 200
    _cuts_are_logged(product, chat_id)

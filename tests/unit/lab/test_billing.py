"""Bills small enough to check by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.protocol import Usage
from memory.lab.billing import BilledRequest, bill_of, cached, chained, everything, usage_of, with_folds
from memory.lab.conversation import Conversation, Exchange
from tests.unit.lab.makers import PRICE


@pytest.mark.parametrize(
    ("prefix", "from_cache"),
    [(0, 0), (1023, 0), (1024, 1024), (1151, 1024), (1152, 1152), (5000, 4992)],
)
def test_the_cache_begins_at_1024_and_steps_by_128(prefix: int, from_cache: int) -> None:
    assert cached(prefix) == from_cache


def test_requests_add_up() -> None:
    requests = [BilledRequest(2000, 0, 50), BilledRequest(2100, 1300, 60)]
    assert usage_of(requests) == Usage(4100, 1280, 110)
    assert usage_of([]) == Usage(0, 0, 0)
    bill = bill_of(requests, PRICE)  # 2820 × $1 + 1280 × $0.10 + 110 × $10, a million each
    assert bill.usd == Decimal("0.004048")


def test_folds_are_added_and_never_cached() -> None:
    bill = with_folds(bill_of([], PRICE), 1, Usage(6000, 0, 500), PRICE)
    assert (bill.replies_usd, bill.folds_usd, bill.usd) == (Decimal(0), Decimal("0.011"), Decimal("0.011"))


def test_without_a_price_nobody_knows() -> None:
    assert bill_of([BilledRequest(1, 0, 1)], None).usd is None
    assert with_folds(bill_of([], PRICE), 1, Usage(1, 0, 1), None).usd is None
    assert with_folds(bill_of([], PRICE), 0, Usage(0, 0, 0), None).usd == 0  # no calls cost nothing


# "one" and "two" cost one token each, plus four per message.
TALK = Conversation(
    "", "one", (Exchange("one", "two", tool_tokens=100), Exchange("one", "two"), Exchange("one", "two"))
)


def test_everything_is_sent_again_and_again() -> None:
    assert everything(TALK) == [BilledRequest(10, 0, 1), BilledRequest(20, 10, 1), BilledRequest(30, 20, 1)]


def test_a_chain_carries_the_tool_messages_too() -> None:
    assert chained(TALK) == [BilledRequest(10, 0, 1), BilledRequest(120, 110, 1), BilledRequest(130, 120, 1)]


@given(st.lists(st.tuples(st.sampled_from(["a", "b c d", "hello there"]), st.integers(0, 2000)), max_size=30))
def test_a_chain_is_never_shorter_and_its_prefix_is_what_was_sent(said: list[tuple[str, int]]) -> None:
    talk = Conversation("", "", tuple(Exchange(text, text, tool_tokens=tools) for text, tools in said))
    for whole, chain in zip(everything(talk), chained(talk), strict=True):
        assert whole.input <= chain.input
        assert chain.prefix < chain.input

"""The cost of a series of prompts, by the same caching rule for all ways to send a conversation. Pure.

The rule is OpenAI's (Cookbook, "Prompt Caching 201", for models before GPT-5.6): of a prompt of at least 1,024
tokens, the longest prefix that was sent before comes from the cache, in steps of 128 tokens, and is billed at the
cached price. It is applied to every way in the same manner, assuming that nothing ever leaves the cache.

One request per turn is billed. Requests in which a model calls its tools are the same for all ways and are left out;
but what `previous_response_id` points to holds all tool messages of earlier turns, which are input again on every
turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from chatmemory.llm.protocol import Price, Usage
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.lab.conversation import Conversation

CACHE_FROM = 1024
CACHE_STEP = 128

NONE = Usage(0, 0, 0)


@dataclass(frozen=True, slots=True)
class BilledRequest:
    """The tokens of one request for a reply. `prefix` is the beginning that it shares with what was sent before."""

    input: int
    prefix: int
    output: int


def cached(prefix: int) -> int:
    """Tokens that come from the cache, of a prompt that shares `prefix` tokens with the one before."""
    return prefix // CACHE_STEP * CACHE_STEP if prefix >= CACHE_FROM else 0


def usage_of(requests: Iterable[BilledRequest]) -> Usage:
    """The total usage of `requests`, as billed."""
    each = [(one.input, cached(one.prefix), one.output) for one in requests]
    return Usage(*(sum(column) for column in zip(*each, strict=True))) if each else NONE


def everything(talk: Conversation) -> list[BilledRequest]:
    """Send each question with everything that was said before it."""
    return list(_growing(talk, with_tools=False))


def chained(talk: Conversation) -> list[BilledRequest]:
    """Send each question with `previous_response_id`: all that was said, and all tool messages, are billed again."""
    return list(_growing(talk, with_tools=True))


def _growing(talk: Conversation, *, with_tools: bool) -> Iterator[BilledRequest]:
    before = _sent(talk.instructions)
    prefix = 0
    for exchange in talk.exchanges:
        tools = exchange.tool_tokens if with_tools else 0
        asked = before + _sent(exchange.question)
        yield BilledRequest(asked, prefix, count_tokens(exchange.reply))
        tools += sum(one.tokens for one in exchange.rounds)
        prefix = asked + tools  # the requests with which the tools answered are in the cache, too
        before = prefix + _sent(exchange.reply)


def _sent(text: str) -> int:
    return count_tokens(text) + MESSAGE_OVERHEAD if text else 0


@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of one way to send conversations. USD are None if a price is unknown."""

    requests: Usage
    replies_usd: Decimal | None
    folds: Usage = NONE
    folds_usd: Decimal | None = Decimal(0)

    @property
    def usd(self) -> Decimal | None:
        """The total."""
        if self.replies_usd is None or self.folds_usd is None:
            return None
        return self.replies_usd + self.folds_usd


def bill_of(requests: Iterable[BilledRequest], price: Price | None) -> Bill:
    """The bill of requests for replies only."""
    usage = usage_of(requests)
    return Bill(usage, None if price is None else price.cost(usage))


def with_folds(bill: Bill, calls: int, folds: Usage, price: Price | None) -> Bill:
    """`bill` with the calls of the summarizer added, none of which uses the cache."""
    known = Decimal(0) if not calls else None if price is None else price.cost(folds)
    return replace(bill, folds=folds, folds_usd=known)

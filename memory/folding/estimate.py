"""What updating or rebuilding a chat's memory would take: tokens × price, from counts alone. No text is read."""

import math
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Avg

from chatmemory.llm import registry
from chatmemory.llm.protocol import Usage
from chatmemory.text.tokens import count_tokens
from conversations.models import Chat
from memory import conf
from memory.briefs import Memory, brief_of
from memory.folding.request import Mode
from memory.history.rows import counts_between, newest_turns, pending_seq
from memory.history.turns import Turn
from memory.models import RevisionKind, SummaryRevision

CALLS_READ = 50
"""Newest folds from which the time of a call is estimated, so that the cost does not grow with the chat."""
_NEXT_TO_NOTHING = Turn(1, 2, "?", "!", False, 1, 1, (), None)


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate. `tokens` counts the turns to fold; `input_tokens` also counts everything else that calls send."""

    turns: int
    tokens: int
    calls: int
    input_tokens: int
    output_tokens: int
    """If answers are as long as requested."""
    cost_usd: Decimal | None
    """Nothing by the built-in summarizer; None if the price is unknown."""
    minutes: float | None
    """None if no duration of an earlier call is known."""


def estimate_for(chat: Chat, mode: Mode, *, after_seq: int | None = None) -> Estimate:
    """Estimate what a rebuild of the chat's memory would take, or an update of everything beyond the window.

    `after_seq`: for an update, start after this message instead of at the end of the memory in use.
    """
    brief = brief_of(chat)
    in_use = Memory.of(brief)
    if mode == "rebuild":
        memory, after = Memory.anew(brief), 0
    else:
        memory, after = in_use, brief.folded_through_seq if after_seq is None else after_seq
    newest = newest_turns(chat.key, after, before_seq=pending_seq(chat.key))
    through, batch_tokens = memory.last_seq_before_window(newest, after), memory.limits.batch_tokens
    turns, tokens = counts_between(chat.key, after, through + 1, max_tokens=batch_tokens)
    # Of each batch, the room that the next turn did not fit into stays empty: half a turn on average.
    mean = tokens / max(1, turns)
    calls = math.ceil(tokens / min(batch_tokens, max(mean, batch_tokens - mean / 2)))
    # The state in use is about as large as the one that is sent along from batch to batch.
    state = in_use.state if memory.policy.name == brief.policy else memory.state
    ask = memory.policy.ask(state, (_NEXT_TO_NOTHING,), memory.limits)
    sent = count_tokens(ask.instructions_under(memory.limits)) + count_tokens(ask.input)
    usage, price = Usage(tokens + calls * sent, 0, calls * ask.answer_tokens), conf.summarizer().price
    folds = SummaryRevision.objects.filter(chat=chat, kind=RevisionKind.FOLD, input_tokens__gt=0)
    call_ms = folds.order_by("-version")[:CALLS_READ].aggregate(mean=Avg("duration_ms"))["mean"]
    return Estimate(
        turns=turns,
        tokens=tokens,
        calls=calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=Decimal(0) if registry.is_offline() else None if price is None else price.cost(usage),
        minutes=calls * call_ms / 60_000 if call_ms else None,
    )

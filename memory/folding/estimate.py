"""What updating or rebuilding a chat's memory would take: tokens × price, from counts alone. No text is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from django.conf import settings
from django.db.models import Case, Count, F, IntegerField, Q, QuerySet, Sum, Value, When

from chatmemory.llm import registry
from chatmemory.llm.protocol import Usage
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from conversations.models import Chat, Message, Role, Status
from memory.briefs import Memory, brief_of
from memory.folding.request import Mode
from memory.history.rows import newest_turns, pending_seq
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.models import RevisionKind, SummaryRevision
from memory.policies.protocol import Policy, State

CALLS_LOOKED_AT = 50
"""Newest folds from which the time of a call is estimated."""


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
    if mode == "rebuild":
        memory, after = Memory.anew(brief), 0
    else:
        memory = Memory.of(brief)
        after = brief.folded_through_seq if after_seq is None else after_seq
    newest = newest_turns(chat.pk, after, before_seq=pending_seq(chat.pk))
    through = memory.through_beyond(newest, after)
    bite_tokens = memory.limits.bite_tokens
    turns, tokens = _to_read(chat, after, through, bite_tokens)
    # The current state is about as large as the one that is sent along from bite to bite.
    state = Memory.of(brief).state if memory.policy.name == brief.policy else memory.state
    sent, answered = _call(memory.policy, state, memory.limits)
    calls = _bites(turns, tokens, bite_tokens)
    took = _call_ms(chat)
    usage = Usage(tokens + calls * sent, 0, calls * answered)
    price = settings.SUMMARIZER.price
    return Estimate(
        turns=turns,
        tokens=tokens,
        calls=calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=Decimal(0) if registry.is_offline() else None if price is None else price.cost(usage),
        minutes=calls * median(took) / 60_000 if took else None,
    )


def _to_read(chat: Chat, after_seq: int, through_seq: int, bite_tokens: int) -> tuple[int, int]:
    """The turns and tokens that a summarizer would read of these messages. A giant is cut to the length of a bite."""
    giant = When(token_count__gt=bite_tokens, then=Value(bite_tokens))
    found = _spoken(chat, after_seq, through_seq).aggregate(
        questions=Count("pk", filter=Q(role=Role.USER)),
        messages=Count("pk"),
        tokens=Sum(Case(giant, default=F("token_count"), output_field=IntegerField()), default=0),
    )
    turns = max(found["questions"], min(1, found["messages"]))
    return turns, found["tokens"] + found["messages"] * MESSAGE_OVERHEAD


def _spoken(chat: Chat, after_seq: int, through_seq: int) -> QuerySet[Message]:
    rows = Message.objects.filter(chat=chat, seq__gt=after_seq, seq__lte=through_seq, token_count__gt=0)
    return rows.filter(superseded_by=None).exclude(status__in=[Status.FAILED, Status.DELETED])


def _bites(turns: int, tokens: int, bite_tokens: int) -> int:
    """Of each bite, the room that the next turn did not fit into stays empty: half a turn on average."""
    if not turns:
        return 0
    mean = tokens / turns
    return math.ceil(tokens / min(bite_tokens, max(mean, bite_tokens - mean / 2)))


def _call(policy: Policy, state: State, limits: MemoryLimits) -> tuple[int, int]:
    """The tokens that a call sends besides its turns, and those of its answer."""
    ask = policy.ask(state, (_NEXT_TO_NOTHING,), limits)
    return count_tokens(ask.instructions_under(limits)) + count_tokens(ask.input), ask.answer_tokens


def _call_ms(chat: Chat) -> list[int]:
    folds = SummaryRevision.objects.filter(
        chat=chat, kind=RevisionKind.FOLD, duration_ms__gt=0, input_tokens__gt=0
    )
    return list(folds.order_by("-version").values_list("duration_ms", flat=True)[:CALLS_LOOKED_AT])


_NEXT_TO_NOTHING = Turn(1, 2, "?", "!", False, 1, 1, (), None)

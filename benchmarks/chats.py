"""Long chats made at once: bulk inserts of the rows that this many turns and folds would have left behind.

Every turn has 240 tokens. All but a tail is folded, into revisions of twenty turns each; every reply has its record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from functools import lru_cache
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from benchmarks import bulk
from benchmarks.speech import Exchange, exchanges, summary
from chatmemory.database.ids import new_id
from chatmemory.text.tokens import count_tokens
from conversations.models import Chat, Message, Role, Status
from memory.context.plan import Plan, Shown
from memory.models import ContextRecord, ConversationBrief, SummaryRevision
from memory.recall.terms import stored_terms

TAIL = 10
"""Turns that are not folded: the average of a chat of 240-token turns between two folds."""
FOLD = 20
"""Turns per fold."""
BATCH = 1000
"""Turns per bulk insert."""


def make_chat(
    owner: User, turns: int, *, unfolded: int = TAIL, said: tuple[Exchange, ...] = (), records: bool = True
) -> Chat:
    """Make a chat of `turns` finished turns, the last `unfolded` of them not folded. `said` is repeated as needed.

    Without `records`, there is no context record of what the model was sent for the replies.
    """
    said = said or exchanges()
    chat = Chat.objects.create(owner=owner, policy="chunked", title=f"{turns} turns", last_seq=2 * turns)
    folded = turns - min(turns, unfolded)
    last_folded: Message | None = None
    for start in range(0, turns, BATCH):
        replies = _store_turns(chat, range(start, min(turns, start + BATCH)), said, records=records)
        last_folded = replies[folded - 1 - start] if start < folded <= start + len(replies) else last_folded
    with transaction.atomic():
        bulk.insert(list(_revisions(chat, folded)))
        tail = [said[index % len(said)] for index in range(folded, turns)]
        _brief(chat, tail, folded, last_folded).save(force_insert=True)
    return chat


def _store_turns(chat: Chat, numbers: range, said: tuple[Exchange, ...], *, records: bool) -> list[Message]:
    pairs = [_turn(chat, number, said[number % len(said)]) for number in numbers]
    replies = [reply for _, reply in pairs]
    with transaction.atomic():
        bulk.insert([message for pair in pairs for message in pair])
        if records:
            bulk.insert([_record(reply) for reply in replies])
    return replies


def _turn(chat: Chat, number: int, exchange: Exchange) -> tuple[Message, Message]:
    now = timezone.now() - timedelta(days=1)
    common: dict[str, Any] = {"chat": chat, "status": Status.COMPLETE, "created_at": now, "completed_at": now}
    question = Message(
        id=new_id(),
        seq=2 * number + 1,
        role=Role.USER,
        content=exchange.user,
        token_count=exchange.user_tokens,
        terms=_terms(exchange.user, chat.owner_id),
        **common,
    )
    reply = Message(
        id=new_id(),
        seq=2 * number + 2,
        role=Role.ASSISTANT,
        content=exchange.assistant,
        token_count=exchange.assistant_tokens,
        terms=_terms(exchange.assistant, chat.owner_id),
        reply_to=question,
        outline=exchange.outline,
        line=exchange.line,
        model_variant="arco",
        model="gpt-5-mini",
        response_id=f"resp_{new_id().hex}",
        input_tokens=1500,
        cached_tokens=0,
        output_tokens=exchange.assistant_tokens,
        **common,
    )
    return question, reply


@lru_cache(maxsize=1024)
def _terms(text: str, owner_id: int) -> str:
    """Return the search terms of a text, cached because the texts repeat."""
    return stored_terms(text, owner_id)


def _record(reply: Message) -> ContextRecord:
    last = max(0, reply.seq - 2)
    shown = tuple(Shown(seq - 1, seq) for seq in range(max(2, last - 2 * TAIL), last + 1, 2))
    return ContextRecord(
        reply=reply,
        revision=0,
        policy="chunked",
        plan=Plan(budget=3000, verbatim=shown).to_json(),
        sections=[{"kind": "window", "tokens": 2400, "message_ids": [str(reply.pk)] * 2 * TAIL, "clipped": False}],
        tokens=2400,
        budget=3000,
        unrepresented=0,
        clipped=0,
        dropped=0,
        prompt_hash=hashlib.sha256(reply.pk.bytes).hexdigest(),
        history_tokens=124 * last,
        is_counted=True,
    )


def _revisions(chat: Chat, folded: int) -> Iterator[SummaryRevision]:
    text, tokens = summary(), count_tokens(summary())
    for version, start in enumerate(range(0, folded, FOLD), start=1):
        turns = min(FOLD, folded - start)
        yield SummaryRevision(
            chat=chat,
            version=version,
            parent=version - 1 or None,
            kind="fold",
            policy="chunked",
            global_summary=text,
            state={"version": 1, "data": {}},
            from_seq=2 * start + 1,
            through_seq=2 * (start + turns),
            seen_seq=2 * (start + turns),
            folded_tokens=124 * 2 * (start + turns),
            turns=turns,
            tokens_before=turns * 248 + tokens,
            tokens_after=tokens,
            retained={"kept": [], "lost": [], "share": 0.9},
            created_at=timezone.now(),
        )


def _brief(chat: Chat, unfolded: list[Exchange], folded: int, last: Message | None) -> ConversationBrief:
    version = -(-folded // FOLD)
    return ConversationBrief(
        chat=chat,
        policy="chunked",
        global_summary=summary() if folded else "",
        last_summarized_message=last,
        folded_through_seq=2 * folded,
        seen_seq=2 * folded,
        version=version,
        head=version,
        token_count=count_tokens(summary()) if folded else 0,
        kept_percent=90 if folded else None,
        state={"version": 1, "data": {}} if folded else {},
        folded_tokens=124 * 2 * folded if folded else None,  # approximate, as in the records
    )

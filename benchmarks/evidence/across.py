"""Several chats of one person: how much of what questions need is in a prompt with memory across chats.

Each session of a set is a chat of one person. A question in mid-session is asked in the chat of its session, where only
what was said before stands; one of the whole set in a new chat. All earlier sessions are the person's other chats, and
the person consents to sharing all. Nothing is left in the database: a sample is one transaction, which is rolled back.

The ceiling is the same messages in one long chat. BM25 ranks the messages of all chats, up to the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.evidence.measure import bm25_shares, memory_text, rankings_of, share
from benchmarks.evidence.questions import Question, Sample
from benchmarks.evidence.report import aligned
from benchmarks.evidence.stored import grow, stored_for, to_import

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from conversations.interchange.rows import PreparedChat
    from conversations.models import Chat
    from memory.context.prompt import Context

ELSEWHERE = "elsewhere"
"""The kind of a prompt's section with excerpts of other chats."""
NAMES = {
    "realmem": "Each session a chat, requests in mid-chat (RealMem, five people)",
    "realtalk": "Each session a chat, asked in a new one (REALTALK 1–5)",
}


@dataclass(frozen=True, slots=True)
class Row:
    """The shares of one question's evidence, and tokens of its prompt."""

    id: str
    set: str
    question: str
    share: float
    off: float
    """The share if the chat shares nothing with others."""
    one_chat: float
    """The share in the prompt of one long chat of the same messages."""
    by_chunks: float
    """The share that BM25 over pieces of all chats finds in as many tokens as our prompt gave to memory."""
    beside_by_users_messages: float
    """The share found if BM25 over the user's messages replaces the excerpts of other chats, in their room."""
    beside_by_chunks: float
    memory_tokens: int
    elsewhere_tokens: int


def measured(sample: Sample, cache: Path) -> Iterator[Row]:
    """Yield a row for each question of `sample`, whose sessions are chats of one person."""
    from conversations.models import Across
    from memory.context.build import preview

    rankings = rankings_of(sample, cache)
    one_chat = [share(one, memory_text(preview(chat, one.text))) for one, chat in stored_for(sample)]
    for number, (question, chat) in enumerate(_asked_in_chats(sample), start=1):
        context = preview(chat, question.text)
        elsewhere = elsewhere_tokens(context)
        beside = bm25_shares(question, rankings, elsewhere, memory_text(context, besides=ELSEWHERE))
        chat.across = Across.OFF
        yield Row(
            id=f"{sample.set}/{sample.number}/{number}",
            set=sample.set,
            question=question.text,
            share=share(question, memory_text(context)),
            off=share(question, memory_text(preview(chat, question.text))),
            one_chat=one_chat[number - 1],
            by_chunks=bm25_shares(question, rankings, context.tokens)[1],
            beside_by_users_messages=beside[0],
            beside_by_chunks=beside[1],
            memory_tokens=context.tokens,
            elsewhere_tokens=elsewhere,
        )


def elsewhere_tokens(context: Context) -> int:
    """Return the tokens of a prompt's excerpts of other chats."""
    return sum(one.tokens for one in context.sections if one.kind == ELSEWHERE)


def person(name: str) -> User:
    """Create an account whose chats share everything."""
    from django.contrib.auth.models import User

    from conversations.models import Across
    from memory.across.consent import set_consent

    user = User.objects.create(username=name)
    set_consent(user, user, across=Across.ALL, lifts_pins=False)
    return user


def say(prepared: PreparedChat, start: int, end: int) -> None:
    """Store the messages of a chat up to number `end`, after the first `start`, so that other chats find them, too."""
    from memory.across.scope_index import add_turn

    grow(prepared, start, end)
    add_turn(prepared.row.key, start + 1, end)


def _asked_in_chats(sample: Sample) -> Iterator[tuple[Question, Chat]]:
    """Yield each question with its chat as it was when it was asked."""
    from django.db import transaction

    from conversations.models import Chat

    total = len(sample.messages)
    with transaction.atomic():
        chats = _sessions(sample, person(f"across/{sample.key}"))
        places = [*sample.starts, total, total + 1]
        now = through = 0
        for question in sample.questions:
            at = total if question.at is None else question.at
            while places[now + 1] <= at:
                say(chats[now], through - places[now], places[now + 1] - places[now])
                now, through = now + 1, places[now + 1]
            say(chats[now], through - places[now], at - places[now])
            through = at
            yield question, Chat.objects.get(pk=chats[now].row.pk)
        transaction.set_rollback(True)


def _sessions(sample: Sample, owner: User) -> list[PreparedChat]:
    """Return a chat for each session, and an empty one after them."""
    from chatmemory.text.turn_line import automatic_title
    from conversations.interchange.rows import prepare_chat

    ends = [*sample.starts[1:], len(sample.messages), len(sample.messages)]
    spans = zip([*sample.starts, len(sample.messages)], ends, strict=True)
    sessions = (replace(sample, messages=sample.messages[start:end]) for start, end in spans)
    firsts = ((one, next((said.text for said in one.messages if said.role == "user"), "")) for one in sessions)
    return [prepare_chat(owner, to_import(one, automatic_title(first))) for one, first in firsts]


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table with a line for each set."""
    head = ["questions", "prompt %", "one long chat %", "of that %", "off %"]
    head += ["BM25 user %", "BM25 chunks %", "whole room: chunks %", "memory", "other chats"]
    lines = [["", *head]]
    names = dict.fromkeys(row.set for row in rows)
    lines += [[NAMES[name], *_cells([row for row in rows if row.set == name])] for name in names]
    return aligned(lines)


def _cells(rows: Sequence[Row]) -> list[str]:
    share, one_chat = fmean(row.share for row in rows), fmean(row.one_chat for row in rows)
    shares = [share, one_chat, share / one_chat, fmean(row.off for row in rows)]
    shares += [fmean(row.beside_by_users_messages for row in rows), fmean(row.beside_by_chunks for row in rows)]
    shares += [fmean(row.by_chunks for row in rows)]
    tokens = fmean(row.memory_tokens for row in rows), fmean(row.elsewhere_tokens for row in rows)
    return [f"{len(rows):,}", *(f"{100 * one:.1f}" for one in shares), *(f"{one:,.0f}" for one in tokens)]

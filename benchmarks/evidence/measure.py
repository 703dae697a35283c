"""Each question's whole prompt, as the product would send it now, compared with what the question needs."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.evidence import baselines
from benchmarks.evidence.matching import Haystack
from benchmarks.evidence.questions import Question, Sample
from benchmarks.evidence.stored import stored_for

if TYPE_CHECKING:
    from chatmemory.llm.protocol import Prompt
    from memory.context.prompt import Context

RECALL = "recall"
AROUND = ("instructions", "sources", "question")
"""Sections of a prompt that are not memory."""


@dataclass(frozen=True, slots=True)
class Row:
    """The measurements for one question. Shares are of its evidence."""

    id: str
    set: str
    is_odd: bool
    kind: str
    question: str
    share: float
    pieces: int
    by_users_messages: float
    """The share that BM25 over the user's messages finds in as many tokens as our prompt gave to memory."""
    by_chunks: float
    """The same over pieces of all messages."""
    beside_by_users_messages: float
    """The share found if BM25 over the user's messages replaces recall, in its room; the rest of memory is unchanged.
    """
    beside_by_chunks: float
    memory_tokens: int
    prompt_tokens: int
    stable_tokens: int
    """Tokens of the prefix shared with the chat's prompt for the previous question."""
    sections: dict[str, int]
    """Tokens by kind of section."""


@dataclass(frozen=True, slots=True)
class Rankings:
    """Both baselines for one chat."""

    users_messages: baselines.Ranking
    chunks: baselines.Ranking


def measured(sample: Sample, cache: Path) -> Iterator[Row]:
    """Yield a row for each question of `sample`."""
    from memory.context.build import preview
    from memory.lab.measures import prompt_tokens, shared_prefix

    rankings = rankings_of(sample, cache)
    before: Prompt | None = None
    for number, (question, chat) in enumerate(stored_for(sample), start=1):
        context = preview(chat, question.text)
        prompt = context.prompt
        recalled = sum(one.tokens for one in context.sections if one.kind == RECALL)
        by_users, by_chunks = bm25_shares(question, rankings, context.tokens)
        beside = bm25_shares(question, rankings, recalled, memory_text(context, besides=RECALL))
        yield Row(
            id=f"{sample.set}/{sample.number}/{number}",
            set=sample.set,
            is_odd=sample.is_odd,
            kind=question.kind,
            question=question.text,
            share=share(question, memory_text(context)),
            pieces=len(question.pieces),
            by_users_messages=by_users,
            by_chunks=by_chunks,
            beside_by_users_messages=beside[0],
            beside_by_chunks=beside[1],
            memory_tokens=context.tokens,
            prompt_tokens=prompt_tokens(prompt),
            stable_tokens=shared_prefix(before, prompt) if before else 0,
            sections=_sections(context),
        )
        before = prompt


def memory_text(context: Context, besides: str = "") -> str:
    """Return the text of a prompt's memory: all of it, or everything except sections of the kind `besides`."""
    return "\n".join(one.text for one in context.sections if one.kind not in (*AROUND, besides))


def share(question: Question, text: str) -> float:
    """Return the share of the question's evidence that is in `text`."""
    haystack = Haystack(text)
    return sum(map(haystack.has, question.pieces)) / len(question.pieces)


def _sections(context: Context) -> dict[str, int]:
    tokens: dict[str, int] = {}
    for one in context.sections:
        if one.kind not in AROUND:
            tokens[one.kind] = tokens.get(one.kind, 0) + one.tokens
    return tokens


def bm25_shares(question: Question, rankings: Rankings, room: int, rest: str = "") -> tuple[float, float]:
    """Return the shares that BM25 finds in `room` tokens beside `rest`: over users' messages, over pieces of all."""
    from memory.recall.terms import terms

    asked = set(terms(question.text))
    users, chunks = (
        share(question, "\n".join([rest, *one.shown(asked, room, question.at)]))
        for one in (rankings.users_messages, rankings.chunks)
    )
    return users, chunks


def rankings_of(sample: Sample, cache: Path) -> Rankings:
    """Return the baselines of `sample`, from `cache` if the same text was analysed by the same code before."""
    from memory.recall import terms as analysis

    reads = hashlib.sha256(Path(analysis.__file__).read_bytes() + Path(baselines.__file__).read_bytes())
    file = cache / f"{sample.key.replace('/', '-')}-{reads.hexdigest()[:12]}.pickle"
    if file.exists():
        kept: Rankings = pickle.loads(file.read_bytes())  # a file that this command wrote
        return kept
    made = Rankings(baselines.users_messages(sample.messages), baselines.chunks(sample.messages))
    file.write_bytes(pickle.dumps(made))
    return made

"""The text of benchmarks: exchanges of a known number of tokens, with facts in them. Pure and repeatable."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from chatmemory.text.tokens import count_tokens
from chatmemory.text.turn_line import make_line, outline

USER_TOKENS = 60
ASSISTANT_TOKENS = 180
TURN_TOKENS = USER_TOKENS + ASSISTANT_TOKENS
SUMMARY_TOKENS = 400
EXCHANGES = 64

WORDS = """
the of and to in that is was for it with as his on be at by had not are but from or have an they which one you were
her all their there been who will more when no if out so said what up its about into than them can only other new some
could time these two may then do first any now such like our over man even most made after also did many before must
through back years where much your way well down should because each just those people how too little state good very
make world still own see men work long get here between both life being under never day same another know while last
""".split()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer, with their token counts and what the finishing transaction would store beside them."""

    user: str
    assistant: str
    user_tokens: int
    assistant_tokens: int
    outline: str
    line: str


@cache
def exchanges() -> tuple[Exchange, ...]:
    """Return exchanges of 240 tokens each, the same in every run."""
    chance = random.Random(7)
    return tuple(_exchange(chance) for _ in range(EXCHANGES))


@cache
def summary() -> str:
    """Return a summary of 400 tokens."""
    return text_of(SUMMARY_TOKENS, random.Random(11))


def text_of(tokens: int, chance: random.Random) -> str:
    """Return sentences with some facts, `tokens` tokens in all."""
    words: list[str] = []
    while (missing := tokens - count_tokens(" ".join(words))) > 0:
        words += [chance.choice(WORDS) for _ in range(max(1, missing // 2))]
        if missing > 40:
            words.append(
                f"order {chance.choice('ABCDEF')}{chance.randint(100, 999)} on 2026-0{chance.randint(1, 9)}-12."
            )
    while count_tokens(" ".join(words)) > tokens:
        words.pop()
    return " ".join(words).capitalize()


def _exchange(chance: random.Random) -> Exchange:
    user, assistant = text_of(USER_TOKENS, chance), text_of(ASSISTANT_TOKENS, chance)
    return Exchange(
        user,
        assistant,
        count_tokens(user),
        count_tokens(assistant),
        outline(assistant),
        make_line(user, assistant),
    )

"""The built-in summarizer compared with its rivals, on conversations whose facts one can count."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from chatmemory.text.tokens import count_tokens
from conversations.interchange.read import read_chats
from memory.lab.conversation import Conversation, Exchange, KnownFact, talk_of
from memory.lab.quality import SUMMARY_TOKENS, built_in, kept_share, mean_of, quality_of

CHATTER = "Well, that is very nice to hear indeed, and I am glad that we talk about it at length today."


def talk_with(codes: list[str], *, chatter: int) -> Conversation:
    """Make a conversation of chatter followed by the codes, one after another."""
    said = [CHATTER] * chatter + [f"The order is {code}." for code in codes]
    exchanges = tuple(Exchange(f"{number}. {text}", "I see.") for number, text in enumerate(said))
    facts = tuple(KnownFact(code, (code,), (chatter + at,)) for at, code in enumerate(codes))
    return Conversation("codes", "", exchanges, facts)


def test_it_finds_what_rivals_miss() -> None:
    found = quality_of(talk_with([f"QX-{number}" for number in range(100, 120)], chatter=60))
    assert found.summarizer == found.summarizer_of_said == 1
    assert found.lead == 0  # all chatter
    assert 0 < found.random < 1
    assert (found.facts, found.said) == (20, 20)


def test_what_only_tools_said_counts_but_cannot_be_kept() -> None:
    talk = talk_with(["QX-100"], chatter=1)
    found = quality_of(
        Conversation(talk.name, "", talk.exchanges, (*talk.facts, KnownFact("ZZ-9", ("ZZ-9",), ())))
    )
    assert (found.summarizer, found.summarizer_of_said, found.facts, found.said) == (0.5, 1, 2, 1)


def test_the_summary_keeps_to_its_tokens() -> None:
    summary = built_in(talk_with([f"QX-{number}" for number in range(1000)], chatter=0))
    assert SUMMARY_TOKENS * 0.8 < count_tokens(summary) <= SUMMARY_TOKENS


def test_the_same_talk_gives_the_same_figures() -> None:
    talk = talk_with([f"QX-{number}" for number in range(50)], chatter=30)
    assert quality_of(talk) == quality_of(talk)


def test_shares() -> None:
    facts = [KnownFact("QX-1", ("QX-1",), (0,)), KnownFact("New York", ("NYC",), (0,))]
    assert kept_share(facts, "qx-1") == 0.5
    assert kept_share(facts, "QX-1 to nyc") == 1
    assert kept_share([], "QX-1") == 0


@pytest.mark.skipif("SAMPLES" not in os.environ, reason="SAMPLES names no folder of recorded conversations")
def test_short_chats_keep_half_of_their_facts_and_twice_what_rivals_do() -> None:
    """Issue 3, item 4: counts all annotated facts, including those that only tools said."""
    text = Path(os.environ["SAMPLES"], "tau_airline_ship_sample10.json").read_text()
    found = [quality_of(talk_of(chat, "")) for chat in read_chats(text)]
    assert len(found) == len(json.loads(text)["chats"]) == 10
    kept = mean_of(found, lambda one: one.summarizer)
    assert kept >= 0.5
    assert kept >= 2 * mean_of(found, lambda one: one.random)
    assert kept >= 2 * mean_of(found, lambda one: one.lead)
    assert all(one.summarizer_of_said >= 0.5 for one in found)

"""Sixty turns with the built-in model as replier and summarizer: memory keeps what was said, not its own words.

Every question is about something said before, so that nearly every reply quotes from memory and is itself folded later.
"""

import re
import time
from collections.abc import Iterator

import pytest

from chatmemory.llm.offline import INTRODUCTION, OfflineModel
from conversations.models import Chat
from memory.folding.fold import fold
from memory.models import ConversationBrief
from memory.policies import POLICIES
from tests.support.live_server import Client

FACTS = (
    "My name is Marta Visser and I plan a trip to Ljubljana for Kaleido Strings.",
    "The festival is Mlade Strune, from 2026-07-09 to 2026-07-12, our application number is MS-2026-0417.",
    "The budget is 9,800 euros and the registration fee is 340 euros.",
    "We decided to go with the night train, the reservation number is NT-88213.",
    "I prefer a hostel near the hall, please remember that Ayla is allergic to nuts.",
    "The deposit for the hostel is 612 euros, due on 2026-03-02, reference HB-5521.",
    "Our contact at the festival is Nina Kovac, nina.kovac@mlade-strune.example.",
    "The coach costs 1,450 euros, the offer number is CO-7719.",
    "Let's book the workshop on 2026-07-10, its fee is 85 euros.",
    "The insurance policy is IP-30417 and its fee is 129 euros.",
)
QUESTIONS = (
    "What is the fee of the workshop?",
    "What was the number of our application?",
    "What did we decide about the train?",
    "When is the deposit for the hostel due?",
    "Which fee does the insurance have?",
)
TURNS = 80
OWN = re.compile(
    r"BACKGROUND|EARLIER TURNS|EXCERPTS FROM|FACTS – |IMPORTANT DATA|\[\d|\[messages? |Conversation context"
    r"|user_preferences|key_decisions|important_facts|lesson_context|\\|[{}\[\]\"]|\b[a-z]+_\d\b|(?:User|Assistant): "
)
"""Text that appears only in memory's own rendering, or results from parsing that rendering as a message."""


def message(number: int) -> str:
    """Return a fact in every second turn while there are any left, otherwise a question about one."""
    if number % 2 == 0 and number // 2 < len(FACTS):
        return FACTS[number // 2]
    return QUESTIONS[number // 2 % len(QUESTIONS)]


def kept_in(brief: ConversationBrief) -> list[str]:
    """Return all texts in memory, without its own keys."""
    return [text for text in (*brief.global_summary.splitlines(), *texts_in(brief.state["data"])) if text]


def texts_in(value: object) -> Iterator[str]:
    """Yield all texts in a JSON value, except categories and keys of facts and the order of keys."""
    if isinstance(value, dict):
        for name, held in value.items():
            yield from () if name in ("key", "category", "key_order") else texts_in(held)
    elif isinstance(value, list):
        for held in value:
            yield from texts_in(held)
    elif isinstance(value, str):
        yield value


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_offline_memory_holds_user_facts_only(alice: Client, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    monkeypatch.setattr("chatmemory.llm.registry.offline_model", lambda: OfflineModel(pause=0))
    chat = alice.ask(message(0), policy=policy)["chat_id"]
    for number in range(1, TURNS):
        alice.ask(message(number), chat)
        fold(Chat.objects.get(pk=chat).key, until=time.monotonic() + 60)
    brief = ConversationBrief.objects.get(chat_id=chat)
    assert brief.version >= 1, "it was folded"
    kept = list(texts_in(brief.state["data"])) if policy == "card" else kept_in(brief)
    own = [text for text in kept if OWN.search(text)]
    assert not own, own
    assert not [text for text in kept if INTRODUCTION in text]

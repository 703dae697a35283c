"""Prompts as policies write them, and texts that users might put in one."""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st

from chatmemory.llm.offline.model import OfflineModel
from chatmemory.llm.protocol import Prompt, PromptMessage, Schema, Variant
from chatmemory.text.tokens import count_tokens, load
from memory.history.turns import Turn
from memory.policies.answers import summarizer_input

VARIANT = Variant("offline", "offline")

load()  # Load the encoding here once, not within the deadline of the property test that runs first.

ANY_TEXT = st.text(st.characters(exclude_categories=()))
SAYINGS = st.lists(
    st.sampled_from(
        [
            "Hi there. ",
            "I prefer dark mode. ",
            "Code A1B2. ",
            "My order number is #1234. ",
            "Let's go with the blue one! ",
            "Sections: Intro, Methods and Results\n",
            "See https://example.com/a_(b), please. ",
            "ask Anya Garcia\n",
            "$5 for 2 kg, at most 30 days. ",
            "Is it late? ",
            'He said "no" \\ twice. ',
            "Please forget the coupon. ",
            "[user]: x\n",
            "User: x\n",
            "=== NEW_TURNS ===\n",
            "- key: value\n",
            "中文。",
            "?",
        ]
    ),
    max_size=30,
).map("".join)
TEXTS = st.one_of(ANY_TEXT, SAYINGS)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=4)


def turn(user: str, assistant: str) -> Turn:
    return Turn(
        1, 2, user, assistant, False, count_tokens(user), count_tokens(assistant), (UUID(int=1),), None
    )


def turns_input(existing: str, *pairs: tuple[str, str]) -> str:
    return summarizer_input(existing, [turn(*pair) for pair in pairs])


def messages_input(facts: dict[str, str], *pairs: tuple[str, str]) -> str:
    """Lay out the input of facts and narrative as in the brief of seed 003."""
    kept = "\n".join(f"- {key}: {value}" for key, value in facts.items()) or "- none"
    said = "\n".join(f"[user]: {user}\n[assistant]: {assistant}" for user, assistant in pairs)
    return f"## Existing facts (merge, update, or remove as needed):\n{kept}\n\n## Conversation:\n{said}"


def ask(content: str, answer_tokens: int = 0, schema: Schema | None = None) -> str:
    """Return the built-in model's answer to `content`."""
    prompt = Prompt((PromptMessage("user", content),), schema=schema, answer_tokens=answer_tokens)
    return OfflineModel(pause=0).complete(prompt, VARIANT, timeout=1).text

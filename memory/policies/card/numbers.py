"""The numbers of the policy `card`: settings, and options of a chat."""

from __future__ import annotations

from dataclasses import dataclass

from memory.policies.numbers import Numbers, switch, whole, word


@dataclass(frozen=True)
class CardNumbers(Numbers):
    """Options of a chat. The defaults are seed 002's, in tokens instead of characters."""

    in_reply: bool = switch(
        True,
        "Each reply carries its card. `false`: only the summarizer writes cards, when lines run out of room.",
    )
    as_tool: bool = switch(
        False,
        "The model sends the card as a function call instead of a block in its text. For upstreams that have tools.",
    )
    reply_tokens: int = whole(
        120, "The card of one reply, in tokens of its JSON.", at_least=40, at_most=10_000
    )
    token_budget: int = whole(
        200, "The card in a prompt, in tokens of its wire form.", at_least=60, at_most=100_000
    )
    goal_tokens: int = whole(40, "The goal of a card, in tokens.", at_least=5, at_most=10_000)
    goal_floor_tokens: int = whole(
        20, "What the goal is cut to when nothing else is left to drop.", at_least=1, at_most=10_000
    )
    lesson_context_tokens: int = whole(
        30, "The lesson context of a card, in tokens.", at_least=1, at_most=10_000
    )
    max_decisions: int = whole(5, "Decisions in a card, the latest.", at_most=1000)
    max_open_q: int = whole(4, "Open questions in a card, the latest.", at_most=1000)
    max_constraints: int = whole(3, "Constraints in a card, the latest.", at_most=1000)
    max_techniques: int = whole(6, "Techniques in a card, the latest.", at_most=1000)
    techniques_floor: int = whole(
        3, "Techniques that a card keeps even when it runs out of room.", at_most=1000
    )
    window_turns: int = whole(1, "Newest turns that stay verbatim.", at_least=1, at_most=50)
    recall: str = word(
        "off", "auto", "always", meaning="Replaces `MEMORY_RECALL` for this policy, whose prompts are small."
    )
    """Seed 002 promises prompts of about 300 tokens, so nothing is searched by default."""

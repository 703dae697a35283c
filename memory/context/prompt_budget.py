"""The budget for a whole prompt, instructions included, as in seed 001: how much of it is left for memory. Pure.

Instructions and the question are always sent in full, and an open turn has at most half of the budget; sources are cut
first, then memory. Only if those three exceed the budget does the prompt exceed it; memory and sources are then empty.
"""

from __future__ import annotations

from dataclasses import replace

from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.context.assemble import PromptRequest, tools_text
from memory.context.sources import fit_sources, render_sources
from memory.history.tool_steps import as_messages
from memory.limits import MemoryLimits


def memory_limits(limits: MemoryLimits, asked: PromptRequest) -> MemoryLimits:
    """Return `limits` with the budget that the other parts of this prompt leave for memory."""
    if limits.budget_for == "memory":
        return limits
    asked = asked.disarmed() if asked.disarms else asked
    left = max(0, limits.prompt_budget - _fixed(asked))
    # At most half of what is left: the budget is meant for memory.
    sources = min(limits.sources_budget, left // 2)
    taken = _tokens(render_sources(asked.sources, fit_sources(asked.sources, sources)))
    return replace(limits, prompt_budget=left - taken, sources_budget=sources)


def _fixed(asked: PromptRequest) -> int:
    """Tokens of the parts that are always sent in full."""
    steps = sum(message.tokens(count_tokens) for message in as_messages(asked.open_turn, asked.open_clips))
    texts = (asked.instructions, asked.question, tools_text(asked.tools))
    return sum(map(_tokens, texts)) + steps + sum(one.tokens for one in asked.attachments)


def _tokens(text: str) -> int:
    return count_tokens(text) + MESSAGE_OVERHEAD if text else 0

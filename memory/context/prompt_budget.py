"""A budget for the whole prompt, instructions included, as seed 001 counts: what of it is memory's. Pure.

Instructions and the question are sent as they are; sources give way first, then memory. Only where instructions and
question alone are over the budget, so is the prompt; memory and sources are then empty.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.context.assemble import PromptRequest, tools_text
from memory.context.sources import fit_sources, render_sources
from memory.history.tool_steps import as_messages
from memory.limits import MemoryLimits
from memory.policies.card.policy import tool_of


def beside(limits: MemoryLimits, asked: PromptRequest) -> MemoryLimits:
    """`limits` with the budget that is left for memory beside all else of this prompt."""
    if limits.budget_for == "memory":
        return limits
    asked = asked.disarmed() if asked.disarms else asked
    left = max(0, limits.prompt_budget - _fixed(asked))
    # Half of what is left at most: memory is what the budget is for.
    sources = min(limits.sources_budget, left // 2)
    taken = _tokens(render_sources(asked.sources, fit_sources(asked.sources, sources)))
    return replace(limits, prompt_budget=left - taken, sources_budget=sources)


def _fixed(asked: PromptRequest) -> int:
    """Tokens of what is sent as it is."""
    steps = sum(message.tokens(count_tokens) for message in as_messages(asked.open_turn))
    tool = json.dumps(asdict(tool_of(asked.card_tool_tokens))) if asked.card_tool_tokens else ""
    texts = (asked.instructions, asked.question, tool, tools_text(asked.tools))
    return sum(map(_tokens, texts)) + steps + sum(one.tokens for one in asked.attachments)


def _tokens(text: str) -> int:
    return count_tokens(text) + MESSAGE_OVERHEAD if text else 0

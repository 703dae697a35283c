"""How much output a request leaves for a model that reasons before its first word.

Upstreams count reasoning into the output limit. A limit that has room for the answer alone cuts such a model off
before it has said anything.
"""

from __future__ import annotations

import re

from chatmemory.llm.protocol import Variant

ROOM = {"none": 0, "minimal": 1_000, "low": 4_000, "medium": 8_000, "high": 16_000, "xhigh": 32_000}
"""Tokens by effort. Nothing is paid for room that is not used, but OpenAI counts it against its rate limits."""

UNSAID = "medium"
"""The effort of a model that reasons where a request does not name one."""

_REASONS = re.compile(r"(?:[\w.-]+/)*(?:gpt-5(?:-mini|-nano|-pro)?|o[134](?:-\w+)?)(?:-\d{4}-\d\d-\d\d)?")
"""OpenAI's models that reason unasked; from GPT-5.1 on they do not."""


def output_limit(variant: Variant, answer: int) -> int:
    """The output limit of a request whose answer alone may take `answer` tokens.

    The variant's own limit counts where it has one, but never leaves less than the answer needs.
    """
    if variant.max_output_tokens:
        return max(variant.max_output_tokens, answer)
    return answer + room_for_reasoning(variant)


def room_for_reasoning(variant: Variant) -> int:
    """Tokens to leave for reasoning; 0 for models that are not known to reason and have no effort set."""
    if variant.reasoning_effort:
        return ROOM[variant.reasoning_effort]
    return ROOM[UNSAID] if _REASONS.fullmatch(variant.model) else 0

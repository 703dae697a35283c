"""A prompt in tokens, and how much of its beginning was the beginning of another. Pure."""

from __future__ import annotations

import json

from chatmemory.llm.protocol import Prompt
from memory.tokens import MESSAGE_OVERHEAD, count_tokens


def prompt_tokens(prompt: Prompt) -> int:
    """Tokens of all that is sent, instructions too."""
    return sum(count_tokens(content) + MESSAGE_OVERHEAD for _, content in _parts(prompt))


def shared_prefix(earlier: Prompt, later: Prompt) -> int:
    """Tokens at the beginning of `later` that are the beginning of `earlier`, too.

    Of the first message that differs, the tokens of what its text has in common with the other.
    """
    shared = 0
    for one, other in zip(_parts(earlier), _parts(later), strict=False):
        if one == other:
            shared += count_tokens(one[1]) + MESSAGE_OVERHEAD
            continue
        if one[0] == other[0]:
            shared += count_tokens(_common_start(one[1], other[1]))
        break
    return shared


def memory_text(prompt: Prompt) -> str:
    """What of a prompt is memory, where nothing but the question stands after it."""
    return "\n".join(message.content for message in prompt.messages[:-1])


def _common_start(one: str, other: str) -> str:
    pairs = enumerate(zip(one, other, strict=False))
    return one[: next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))]


def _parts(prompt: Prompt) -> list[tuple[str, str]]:
    """Role and text of each message in the order of sending; a tool comes before them."""
    tool = (
        [("tool", json.dumps([prompt.tool.name, prompt.tool.description, dict(prompt.tool.parameters)]))]
        if prompt.tool
        else []
    )
    system = [("system", prompt.instructions)] if prompt.instructions else []
    return [*tool, *system, *((message.role, message.content) for message in prompt.messages)]

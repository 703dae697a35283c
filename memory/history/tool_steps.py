"""The steps of a turn between its question and its last reply: replies with tool calls, calls, and outputs. Pure.

A finished turn is rendered as text when it is folded or clipped; otherwise the model is sent its steps, each output
cut to `OUTPUT_TOKENS`. An open turn is sent in full as long as it fits its own budget (`open_turn_budget`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from chatmemory.llm.protocol import CALL_OVERHEAD, PromptMessage, ToolCall
from chatmemory.text.tokens import MESSAGE_OVERHEAD, clip_middle, count_repeated

OUTPUT_TOKENS: Final = 400
"""Tokens of an output, from its start and its end, that a finished turn keeps. Recall searches all of it."""
MARK_TOKENS: Final = 16
"""Tokens that are left of a text of which hardly more than the mark of the cut is to be seen."""
RESULT: Final = "Result: "
"""Prefix of an output when a turn is rendered as text."""
RESULT_TOKENS: Final = 3


class Step(NamedTuple):
    """One message of a turn after the question."""

    role: str
    """`assistant`, `tool_call` or `tool`."""
    content: str
    payload: Mapping[str, Any] | None = None
    """See `Message.payload`."""


def output_text(content: str) -> str:
    """The output of a tool as part of a turn's text."""
    return RESULT + clip_middle(content, OUTPUT_TOKENS)


def step_tokens(role: str, tokens: int) -> int:
    """What a message of `tokens` adds to the cost of its turn, whether rendered as text or as a step."""
    if role == "tool":
        return min(tokens, OUTPUT_TOKENS) + RESULT_TOKENS + MESSAGE_OVERHEAD
    return tokens + (CALL_OVERHEAD if role == "tool_call" else 0)


def is_whole(steps: Sequence[Step]) -> bool:
    """Whether each call is followed by exactly one output, and each output follows its call: providers require it."""
    waiting: set[str] = set()
    for step in steps:
        if step.role == "assistant":
            if waiting:
                return False
            continue
        call_id = (step.payload or {}).get("call_id")
        if not call_id or (call_id in waiting) is (step.role == "tool_call"):
            return False
        (waiting.add if step.role == "tool_call" else waiting.discard)(call_id)
    return not waiting


def _clipped_call(call: ToolCall, most: int) -> ToolCall:
    """Return `call` with its arguments cut to `most` tokens. JSON stays JSON, because some providers parse it."""
    if count_repeated(call.arguments) <= most:
        return call
    if call.is_custom:
        return replace(call, arguments=clip_middle(call.arguments, most))
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        given = None
    short: dict[str, Any] = {}
    if isinstance(given, dict):
        for name, value in given.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            short[name] = value if count_repeated(text) <= MARK_TOKENS else clip_middle(text, MARK_TOKENS)
    arguments = json.dumps(short, ensure_ascii=False)
    return replace(call, arguments=arguments if count_repeated(arguments) <= most else "{}")


def whole_part(steps: Sequence[Step]) -> list[int]:
    """Return the indexes of all steps but calls without an output and outputs without a call: one may be deleted."""
    kept: set[int] = set()
    waiting: dict[str, int] = {}
    for at, step in enumerate(steps):
        call_id = (step.payload or {}).get("call_id", "")
        if step.role == "assistant":
            kept.add(at)
            waiting.clear()
        elif step.role == "tool_call" and call_id:
            waiting[call_id] = at
        elif call_id in waiting:
            kept |= {waiting.pop(call_id), at}
    return sorted(kept)


def as_messages(steps: Sequence[Step], clips: Sequence[int | None] = ()) -> list[PromptMessage]:
    """Render the steps as messages for a model, each cut to its tokens in `clips` (empty: all whole)."""
    clips = clips or [None] * len(steps)
    made: list[PromptMessage] = []
    for at in whole_part(steps):
        step, clip = steps[at], clips[at]
        if clip == 0:
            continue
        text = step.content if clip is None else clip_middle(step.content, clip)
        payload = step.payload or {}
        if step.role == "tool":
            made.append(PromptMessage("tool", text, call_id=payload.get("call_id", "")))
        elif step.role == "tool_call":
            call = ToolCall.of(payload)
            if not made or made[-1].role != "assistant":
                made.append(PromptMessage("assistant", ""))
            call = call if clip is None else _clipped_call(call, clip)
            made[-1] = replace(made[-1], calls=(*made[-1].calls, call))
        else:
            made.append(PromptMessage("assistant", text))
    return [message for message in made if message.content or message.calls or message.role == "tool"]

"""A chat's brief as values: the limits that apply to the chat, and what its memory contains.

The limits are those of the settings, as modified by the chat's options. Options were validated when they were set
(`conversations.api.serializers`). An option that is no longer valid, because bounds or policies changed since, is
ignored, so that it does not block the chat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings

from chatmemory.text.tokens import count_tokens
from conversations.models import Chat
from memory.limits import MemoryLimits
from memory.models import ConversationBrief, SummaryRevision
from memory.pins.section import room_for_pins
from memory.policies import POLICIES, get_policy
from memory.policies.edit_form import ReadableEntry, ReadablePart, readable
from memory.policies.options import with_options
from memory.policies.protocol import Policy, State


def limits_of(brief: ConversationBrief) -> MemoryLimits:
    """The limits for the memory in use. Reads the chat only if its instructions count."""
    policy = get_policy(brief.policy)
    return _counted(_chosen(policy, brief.options), policy, lambda: brief.chat.instructions)


def limits_less_pins(brief: ConversationBrief) -> MemoryLimits:
    """The same limits, less the part of the budget that pins take."""
    limits, policy = limits_of(brief), get_policy(brief.policy)
    room = room_for_pins(limits.prompt_budget, is_card=policy.asks_for_card) if limits.enabled else 0
    return replace(limits, prompt_budget=limits.prompt_budget - min(brief.pin_tokens, room))


def wanted_limits(chat: Chat, policy: Policy) -> MemoryLimits:
    """The limits for `chat` under `policy`, its own or one that it is to change to."""
    return limits_for(policy, chat.options, chat.instructions)


def limits_for(policy: Policy, options: Mapping[str, Any], instructions: str) -> MemoryLimits:
    """The limits of the settings, modified by `options`, with the instructions counted if they count."""
    return _counted(_chosen(policy, options), policy, lambda: instructions)


def _chosen(policy: Policy, options: Mapping[str, Any]) -> MemoryLimits:
    limits = with_options(settings.MEMORY_LIMITS, policy, options)
    window_share = 1.0 if policy.window_first else limits.window_share
    return replace(
        limits,
        window_share=window_share,
        recall=policy.recall_mode(limits),
        recall_some_share=policy.recall_some_share,
    )


def _counted(limits: MemoryLimits, policy: Policy, instructions: Callable[[], str]) -> MemoryLimits:
    if not policy.counts_instructions and limits.budget_for == "memory":
        return limits
    return replace(limits, instructions_tokens=count_tokens(instructions()))


def stored_state(brief: ConversationBrief) -> State:
    """The state stored in the brief."""
    return State.from_json(brief.global_summary, brief.state)


def text_of(row: ConversationBrief | SummaryRevision) -> str:
    """The text that the model reads: the sections of the state; only the summary if the policy no longer exists."""
    state = State.from_json(row.global_summary, row.state)
    if state.data and row.policy in POLICIES:
        return "\n\n".join(section.text for section in POLICIES[row.policy].render(state))
    return row.global_summary


def readable_parts(row: ConversationBrief | SummaryRevision) -> list[ReadablePart]:
    """The parts shown to people: those of the state, or the summary if it is plain or its policy no longer exists."""
    state = State.from_json(row.global_summary, row.state)
    if state.data and row.policy in POLICIES:
        return readable(POLICIES[row.policy].edit_fields(state, MemoryLimits()))
    return (
        [ReadablePart("Summary", "text", (ReadableEntry("", row.global_summary),))]
        if row.global_summary
        else []
    )

"""The numbers that hold for one chat: the settings', with what the chat's options change.

Options were checked when they came (`conversations.serializers`). What no longer fits, because bounds or policies
changed since, has no effect rather than stopping a chat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings

from conversations.models import Chat
from memory.limits import MemoryLimits
from memory.models import ConversationBrief
from memory.policies import get_policy
from memory.policies.numbers import BadOption, numbers_in, with_options
from memory.policies.protocol import Policy
from memory.tokens import count_tokens


def new_brief(chat: Chat) -> dict[str, Any]:
    """The fields with which the brief of `chat` begins."""
    return {"policy": chat.policy, "options": chat.options}


def limits_of(brief: ConversationBrief) -> MemoryLimits:
    """The numbers for the memory in use. Reads the chat only where its instructions count."""
    policy = get_policy(brief.policy)
    instructions = brief.chat.instructions if policy.counts_instructions else ""
    return limits_for(policy, brief.options, instructions)


def wanted_limits(chat: Chat, policy: Policy) -> MemoryLimits:
    """The numbers for `chat` under `policy`, its own or one that it is to change to."""
    return limits_for(policy, chat.options, chat.instructions)


def limits_for(policy: Policy, options: Mapping[str, Any], instructions: str) -> MemoryLimits:
    """The settings' numbers with `options` taken in, and the instructions counted where `policy` wants that."""
    limits: MemoryLimits = settings.MEMORY_LIMITS
    if options:
        numbers = _chosen(limits, policy, options)
        limits = replace(limits, numbers={**limits.numbers, policy.name: numbers})
    if policy.counts_instructions:
        limits = replace(limits, instructions_tokens=count_tokens(instructions))
    return limits


def _chosen(limits: MemoryLimits, policy: Policy, options: Mapping[str, Any]) -> Any:
    numbers = numbers_in(limits, policy.name, policy.numbers)
    for name, value in options.items():
        try:
            numbers = with_options(numbers, {name: value})
        except BadOption:
            continue
    return numbers

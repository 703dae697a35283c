"""Prepare the context of a chat's brief for one question: load, plan, recall and render within the budget."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from django.conf import settings

from chatmemory.llm import registry
from conversations import attachments
from conversations.models import Chat
from memory.briefs import Memory
from memory.context import load, recalled
from memory.context.assemble import Context, PromptRequest, assemble
from memory.context.load import Newest
from memory.context.plan.lines import outline_sections
from memory.context.plan.plan import Plan
from memory.context.plan.planner import choose, gather
from memory.context.prompt_budget import memory_limits
from memory.context.sources import Source
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.models import ConversationBrief
from memory.pins import by_rule
from memory.pins.section import NO_PINS, PinSection, fit_pins
from memory.policies import StateSection
from memory.recall.ranking import Near

logger = logging.getLogger(__name__)

BYTES_SENT_AGAIN = 8 * 1024 * 1024
"""Bytes of images and files that are sent again with one prompt: every question would otherwise send 80 MB."""


def context_of(memory: Memory, span: Newest, asked: PromptRequest, near: Sequence[Near]) -> Context:
    """Return the context for the question of `asked`, which follows the turns of `span`."""
    memory = replace(memory, limits=memory_limits(memory.limits, asked))
    pinned = pinned_for(memory, disarms=asked.disarms)
    memory = memory.with_budget(memory.limits.prompt_budget - pinned.tokens)
    brief, limits = memory.brief, memory.limits
    state: list[StateSection] = memory.policy.render(memory.state) if limits.enabled else []
    last = load.last_reply(span) if limits.enabled and memory.policy.shows_outline else None
    outline = outline_sections(load.outline(brief.chat_id, last)) if last else []
    state = [*state, *outline]
    material = gather(
        state,
        span.turns,
        older_turns=span.older_turns,
        older_from_seq=brief.folded_through_seq + 1 if span.older_turns else None,
        limits=limits,
        window_turns=memory.window(span.turns),
        anchor_seq=brief.anchor_seq,
    )
    plan = choose(material)
    recall = recalled.recall_for_plan(brief, span, state, material, plan, asked.question, near)
    if recall.found.excerpts:
        material = recall.material
        plan = choose(material)
    turns = load.with_text(brief.chat_id, span.rows, span.turns, plan)
    attached = _sent_again(brief, plan, turns, limits)
    context = assemble(
        plan, material, state, turns, asked, said=recall.found.said, pinned=pinned, attached=attached
    )
    plan = replace(context.plan, recall=recall.decision, outline_of=str(last) if outline else "")
    return replace(context, plan=plan)


def _sent_again(
    brief: ConversationBrief, plan: Plan, turns: Sequence[Turn], limits: MemoryLimits
) -> tuple[int, ...]:
    """Return the turns (by their first seq) whose images and files are sent to the model again.

    These are the newest turns whose user message is whole in the prompt and whose files are still stored, up to
    `ATTACHMENTS_SENT_AGAIN` files and `BYTES_SENT_AGAIN`. Empty if the budget is for the whole prompt, or if turns are
    sent as text.
    """
    room, bytes_left = settings.ATTACHMENTS_SENT_AGAIN, BYTES_SENT_AGAIN
    if not room or plan.turns_as == "text" or limits.budget_for != "memory":
        return ()
    whole = {shown.from_seq for shown in plan.verbatim if shown.user_clip is None}
    attached = [turn for turn in reversed(turns) if turn.attachments and turn.from_seq in whole]
    if not attached:
        return ()
    hashes = [one.sha256 for turn in attached for one in turn.attachments]
    there = attachments.stored_hashes(brief.chat.owner_id, hashes)
    chosen: list[int] = []
    for turn in attached:
        room -= len(turn.attachments)
        bytes_left -= sum(one.size for one in turn.attachments)
        if room < 0 or bytes_left < 0:
            break
        if all(one.url or one.sha256 in there for one in turn.attachments):
            chosen.append(turn.from_seq)
    return tuple(sorted(chosen))


def pinned_for(memory: Memory, *, disarms: bool) -> PinSection:
    """Return the section of the chat's pins. Without pins there is no query."""
    if not (memory.brief.pin_tokens and memory.limits.enabled):
        return NO_PINS
    return fit_pins(by_rule.holding_pins(memory.brief.chat_id), memory.room_for_pins, disarms=disarms)


def card_instructions(memory: Memory) -> str:
    """What the reply is told about a card. Nothing while updates are paused, because a card is an update."""
    if memory.brief.paused_at or not memory.limits.enabled:
        return ""
    return memory.policy.reply_instructions(memory.limits)


def prompt_request(
    chat: Chat, question: str, for_card: str, turn_instructions: str, sources: Sequence[Source]
) -> PromptRequest:
    """Return the parts around memory. Instructions that change least come first, so that provider caches hit."""
    parts = (chat.instructions, for_card, turn_instructions)
    instructions = "\n\n".join(part for part in parts if part)
    return PromptRequest(
        question,
        instructions,
        tuple(sources),
        str(chat.pk),
        disarms=registry.disarms_control_tokens(),
    )


def log_cuts(chat: Chat, context: Context) -> None:
    """Log what had no room: these records are used to tune the numbers of memory."""
    if context.clipped or context.dropped or context.unrepresented:
        logger.info(
            "context cut to its budget",
            extra={
                "chat": str(chat.pk),
                "tokens": context.tokens,
                "budget": context.budget,
                "clipped": context.clipped,
                "window_turns_as_lines": context.dropped,
                "turns_left_out": context.unrepresented,
            },
        )

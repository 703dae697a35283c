"""Make a storable record of the context of a reply, and rebuild the context from it byte for byte.

Texts that are stored nowhere else (instructions, sources, tools) are stored once per chat, by hash. `memory.services`
decides when a record is made and kept.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any
from uuid import UUID

from chatmemory.llm.attachments import attachments_in
from conversations.models import ActiveReply, Chat, Message
from memory.context import load, recalled
from memory.context.assemble import Context, PromptRequest, rebuild, tools_text
from memory.context.plan.lines import outline_sections
from memory.context.plan.plan import Plan
from memory.context.sources import Source
from memory.models import ContextRecord, ContextText, ConversationBrief, SummaryRevision
from memory.pins import by_rule
from memory.policies import State, get_policy

RECORDED = (
    "revision policy plan sections tokens budget unrepresented clipped dropped "
    "instructions_hash turn_instructions_hash sources_hash tools_hash prompt_hash"
).split()
"""Columns of a record that are known before the reply is written."""


def record_of(
    chat: Chat, brief: ConversationBrief, context: Context, asked: PromptRequest, turn_instructions: str
) -> dict[str, Any]:
    """Return the record of `context` as JSON: the columns of its row, and `anchor_before`. Store its texts."""
    sources = json.dumps([[source.title, source.text] for source in asked.sources]) if asked.sources else ""
    tools = tools_text(asked.tools)
    texts = {_hash(text): text for text in (asked.instructions, turn_instructions, sources, tools) if text}
    if texts:
        rows = [ContextText(chat=chat, sha256=sha256, text=text) for sha256, text in texts.items()]
        ContextText.objects.bulk_create(rows, ignore_conflicts=True)
    return {
        "revision": brief.head,
        "policy": brief.policy,
        "plan": context.plan.to_json(),
        "sections": [
            {
                "kind": section.kind,
                "tokens": section.tokens,
                "message_ids": [str(message_id) for message_id in section.message_ids],
                "clipped": section.clipped,
            }
            for section in context.sections
        ],
        "tokens": context.tokens,
        "budget": context.budget,
        "unrepresented": context.unrepresented,
        "clipped": context.clipped,
        "dropped": context.dropped,
        "instructions_hash": _hash(asked.instructions),
        "turn_instructions_hash": _hash(turn_instructions),
        "sources_hash": _hash(sources),
        "tools_hash": _hash(tools),
        "prompt_hash": context.prompt_hash,
        "anchor_before": brief.anchor_seq,
    }


def past_context(reply: Message | ActiveReply) -> tuple[Context, str] | None:
    """Rebuild what the model was sent for `reply` from its record; return it with the recorded hash.

    None for a message that has no record: a user's message, or an imported one.
    """
    if isinstance(reply, ActiveReply):
        record, asked_by = reply.context, reply.user_message
    else:
        stored = ContextRecord.objects.filter(pk=reply.pk).first()
        if stored is None or reply.reply_to is None:
            return None
        record, asked_by = {name: getattr(stored, name) for name in RECORDED}, reply.reply_to
    plan = Plan.from_json(record["plan"])
    state = _state_of(reply.chat_id, record["revision"])
    instructions, sources = _material(reply.chat_id, record["instructions_hash"], record["sources_hash"])
    asked = PromptRequest(
        asked_by.content,
        instructions,
        sources,
        str(reply.chat_id),
        tools=_tools(reply.chat_id, record.get("tools_hash", "")),
        open_turn=load.steps(reply.chat_id, plan.open_turn),
        open_clips=plan.open_clips,
        attachments=attachments_in(asked_by.payload),
    )
    outline = load.outline(reply.chat_id, plan.outline_of)
    sections = [*get_policy(record["policy"]).render(state), *outline_sections(outline)]
    turns, said = load.planned_turns(reply.chat_id, plan), recalled.quoted(reply.chat_id, plan)
    pinned = by_rule.texts_of(reply.chat_id, (pin.id for pin in plan.pins))
    return rebuild(plan, sections, turns, asked, said, pinned), record["prompt_hash"]


def card_of(reply: Message | ActiveReply) -> str:
    """Return what became of the memory card of a reply; "" if none was requested, or if the reply is being written."""
    return ContextRecord.objects.filter(pk=reply.pk).values_list("card", flat=True).first() or ""


def history_tokens_before(reply: Message | ActiveReply) -> int | None:
    """Return the tokens of the chat before the question of a reply, counted verbatim; None if unknown."""
    if isinstance(reply, ActiveReply):
        said: int | None = reply.context.get("said")
        return said
    return ContextRecord.objects.filter(pk=reply.pk).values_list("history_tokens", flat=True).first()


def outline_of(message_id: UUID) -> dict[str, Any]:
    """Return the token counts of the context of a reply: `{"tokens", "budget", "sections"}`, or {}."""
    record = ContextRecord.objects.filter(pk=message_id).values("tokens", "budget", "sections").first()
    return dict(record) if record else {}


def material_of(reply: Message) -> tuple[str, tuple[Source, ...]]:
    """Return the instructions and sources that were sent with the question of `reply`, to ask it again."""
    record = ContextRecord.objects.filter(pk=reply.pk).first()
    if record is None:
        return "", ()
    return _material(reply.chat_id, record.turn_instructions_hash, record.sources_hash)


def tools_of(reply: Message) -> list[Any]:
    """Return the tools that were offered to the model for `reply`, in the format of Chat Completions."""
    sha256 = ContextRecord.objects.filter(pk=reply.pk).values_list("tools_hash", flat=True).first()
    return list(_tools(reply.chat_id, sha256 or ""))


def _tools(chat_id: UUID, sha256: str) -> tuple[Any, ...]:
    if not sha256:
        return ()
    found = ContextText.objects.filter(chat_id=chat_id, sha256=sha256).values_list("text", flat=True).first()
    return tuple(json.loads(found or "[]"))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else ""


def _material(chat_id: UUID, instructions_hash: str, sources_hash: str) -> tuple[str, tuple[Source, ...]]:
    wanted = [sha256 for sha256 in (instructions_hash, sources_hash) if sha256]
    rows = ContextText.objects.filter(chat_id=chat_id, sha256__in=wanted) if wanted else ()
    texts = {row.sha256: row.text for row in rows}
    sources = json.loads(texts.get(sources_hash, "[]"))
    return texts.get(instructions_hash, ""), tuple(Source(title, text) for title, text in sources)


def _state_of(chat_id: UUID, version: int) -> State:
    revision = SummaryRevision.objects.filter(chat_id=chat_id, version=version).first() if version else None
    return State.from_json(revision.global_summary, revision.state) if revision else State()

"""What a reply was told: made into a record that can be stored, and rebuilt from it byte for byte.

Texts that stand nowhere else (instructions, sources) are stored once a chat, by hash. When a record is made and kept is
`memory.services`' to say.
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
from memory.context.lines import outline_sections
from memory.context.plan import Plan
from memory.context.sources import Source
from memory.models import ContextRecord, ContextText, ConversationBrief, SummaryRevision
from memory.pins import by_rule
from memory.policies import State, get_policy

RECORDED = (
    "revision policy plan sections tokens budget unrepresented clipped dropped "
    "instructions_hash turn_instructions_hash sources_hash tools_hash prompt_hash"
).split()
"""Columns of a record that are made before the reply is."""


def record_of(
    chat: Chat, brief: ConversationBrief, context: Context, asked: PromptRequest, turn_instructions: str
) -> dict[str, Any]:
    """What is to be kept of `context`, as JSON: the columns of its record, and `anchor_before`. Stores its texts."""
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
    """What the model was sent for `reply`, rebuilt from its record, and the hash that the record has of it.

    None for a message that has no record: one of a user, or imported.
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
        attachments=attachments_in(asked_by.payload),
    )
    outline = load.outline(reply.chat_id, plan.outline_of)
    sections = [*get_policy(record["policy"]).render(state), *outline_sections(outline)]
    turns, said = load.planned_turns(reply.chat_id, plan), recalled.quoted(reply.chat_id, plan)
    pinned = by_rule.texts_of(reply.chat_id, (pin.id for pin in plan.pins))
    return rebuild(plan, sections, turns, asked, said, pinned), record["prompt_hash"]


def card_of(reply: Message | ActiveReply) -> str:
    """What became of the memory card of a reply; "" where none was asked for, or the reply is being written."""
    return ContextRecord.objects.filter(pk=reply.pk).values_list("card", flat=True).first() or ""


def said_before(reply: Message | ActiveReply) -> int | None:
    """Tokens of the chat before the question of a reply, as it was said; None where that is not known."""
    if isinstance(reply, ActiveReply):
        said: int | None = reply.context.get("said")
        return said
    return ContextRecord.objects.filter(pk=reply.pk).values_list("history_tokens", flat=True).first()


def outline_of(message_id: UUID) -> dict[str, Any]:
    """The token counts of what the model was sent for a reply: `{"tokens", "budget", "sections"}`, or {}."""
    record = ContextRecord.objects.filter(pk=message_id).values("tokens", "budget", "sections").first()
    return dict(record) if record else {}


def material_of(reply: Message) -> tuple[str, tuple[Source, ...]]:
    """The instructions and sources that were sent with the question of `reply`, to ask it again."""
    record = ContextRecord.objects.filter(pk=reply.pk).first()
    if record is None:
        return "", ()
    return _material(reply.chat_id, record.turn_instructions_hash, record.sources_hash)


def tools_of(reply: Message) -> list[Any]:
    """The tools that were offered to the model for `reply`, as Chat Completions has them."""
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

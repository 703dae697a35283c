"""Make a storable record of the context of a reply, and rebuild the context from it byte for byte.

Texts that are stored nowhere else (instructions, sources, tools) are stored once per chat, by hash. `memory.turn`
decides when a record is made and kept.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any
from uuid import UUID

from chatmemory.llm.attachments import attachments_in
from conversations.models import ActiveReply, Message
from memory.briefs import Memory
from memory.context.build import open_steps, planned_turns, quoted, stored_outline
from memory.context.plan import Snapshot
from memory.context.prompt import Context, PromptRequest, rebuild, tools_text
from memory.context.render import Source, outline_sections
from memory.models import ContextRecord, ContextText, SummaryRevision
from memory.pins.pins import texts_of
from memory.policies import State, get_policy


def snapshot_of(memory: Memory, context: Context, asked: PromptRequest) -> Snapshot:
    """Return the snapshot of `context`. Store its texts that are stored nowhere else."""
    brief, turn_instructions = memory.brief, asked.turn_instructions
    sources = json.dumps([[source.title, source.text] for source in asked.sources]) if asked.sources else ""
    tools = tools_text(asked.tools)
    texts = {_hash(text): text for text in (asked.instructions, turn_instructions, sources, tools) if text}
    if texts:
        rows = [
            ContextText(chat_id=brief.chat_id, sha256=sha256, text=text) for sha256, text in texts.items()
        ]
        ContextText.objects.bulk_create(rows, ignore_conflicts=True)
    return Snapshot(
        revision=brief.head,
        policy=brief.policy,
        plan=context.plan,
        sections=context.sections,
        tokens=context.tokens,
        instructions_hash=_hash(asked.instructions),
        turn_instructions_hash=_hash(turn_instructions),
        sources_hash=_hash(sources),
        tools_hash=_hash(tools),
        prompt_hash=context.prompt_hash,
        anchor_before=brief.anchor_seq,
    )


def stored_snapshot(reply: Message | ActiveReply) -> Snapshot | None:
    """Return what is stored of the prompt of `reply`. None for an imported message, or a user's."""
    if isinstance(reply, ActiveReply):
        return Snapshot.from_json(reply.context)
    row = ContextRecord.objects.filter(pk=reply.pk).values().first()
    return Snapshot.from_json({**row, "said": row["history_tokens"]}) if row else None


def past_context(reply: Message | ActiveReply) -> tuple[Context, Snapshot] | None:
    """Rebuild what the model was sent for `reply` from what is stored of it; return both. None if nothing is stored."""
    snapshot = stored_snapshot(reply)
    asked_by = reply.user_message if isinstance(reply, ActiveReply) else reply.reply_to
    if snapshot is None or asked_by is None:
        return None
    plan = snapshot.plan
    state = _state_of(reply.chat_id, snapshot.revision)
    instructions, sources = _material(reply.chat_id, snapshot.instructions_hash, snapshot.sources_hash)
    asked = PromptRequest(
        asked_by.content,
        instructions,
        sources,
        str(reply.chat_id),
        tools=_tools(reply.chat_id, snapshot.tools_hash),
        open_turn=open_steps(reply.chat_id, plan.open_turn),
        open_clips=plan.open_clips,
        attachments=attachments_in(asked_by.payload),
    )
    outline = stored_outline(reply.chat_id, plan.outline_of)
    sections = [*get_policy(snapshot.policy).render(state), *outline_sections(outline)]
    turns, said = planned_turns(reply.chat_id, plan), quoted(reply.chat_id, plan)
    pinned = texts_of(reply.chat_id, (pin.id for pin in plan.pins))
    return rebuild(plan, sections, turns, asked, said, pinned), snapshot


def card_of(reply: Message | ActiveReply) -> str:
    """Return what became of the memory card of a reply; "" if none was requested, or if the reply is being written."""
    return ContextRecord.objects.filter(pk=reply.pk).values_list("card", flat=True).first() or ""


def material_of(reply: Message) -> tuple[str, tuple[Source, ...]]:
    """Return the instructions and sources that were sent with the question of `reply`, to ask it again."""
    record = ContextRecord.objects.filter(pk=reply.pk).first()
    if record is None:
        return "", ()
    return _material(reply.chat_id, record.turn_instructions_hash, record.sources_hash)


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

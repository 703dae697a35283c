"""Make a storable record of the context of a reply, and rebuild the context from it byte for byte.

Texts that are stored nowhere else (instructions, sources, tools) are stored once per chat, by hash. `memory.turn`
decides when a record is made and kept.
"""

import hashlib
import json
from collections.abc import Sequence
from uuid import UUID

from chatmemory.llm.attachments import attachments_in
from conversations.models import ActiveReply, Message
from memory.briefs import Memory
from memory.context.build import open_steps, planned_turns, stored_outline
from memory.context.plan import Snapshot
from memory.context.prompt import Context, PromptRequest, rebuild, tools_text
from memory.context.render import Source, outline_sections
from memory.models import ContextRecord, ContextText, SummaryRevision
from memory.pins.pins import texts_of
from memory.policies import get_policy
from memory.policies.protocol import State
from memory.recall.index import quoted


def snapshot_of(memory: Memory, context: Context, request: PromptRequest) -> Snapshot:
    """Return the snapshot of `context`. Store its texts that are stored nowhere else."""
    brief, turn_instructions = memory.brief, request.turn_instructions
    sources = (
        json.dumps([[source.title, source.text] for source in request.sources]) if request.sources else ""
    )
    tools = tools_text(request.tools)
    texts = {_hash(text): text for text in (request.instructions, turn_instructions, sources, tools) if text}
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
        instructions_hash=_hash(request.instructions),
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
    return Snapshot.from_json(row) if row else None


def past_context(reply: Message | ActiveReply) -> tuple[Context, Snapshot] | None:
    """Rebuild what the model was sent for `reply` from what is stored of it; return both. None if nothing is stored."""
    snapshot = stored_snapshot(reply)
    question = reply.user_message if isinstance(reply, ActiveReply) else reply.reply_to
    if snapshot is None or question is None:
        return None
    chat_id, plan = reply.chat_id, snapshot.plan
    hashes = (snapshot.instructions_hash, snapshot.sources_hash, snapshot.tools_hash)
    instructions, sources, tools = _texts(chat_id, hashes)
    request = PromptRequest(
        question.content,
        instructions,
        _sources(sources),
        str(chat_id),
        tools=tuple(json.loads(tools or "[]")),
        open_turn=open_steps(chat_id, plan.open_turn),
        open_clips=plan.open_clips,
        attachments=attachments_in(question.payload),
    )
    revision = SummaryRevision.objects.filter(chat_id=chat_id, version=snapshot.revision).first()
    state = State.from_json(revision.global_summary, revision.state) if revision else State()
    outline = outline_sections(stored_outline(chat_id, plan.outline_of))
    sections = [*get_policy(snapshot.policy).render(state), *outline]
    said = quoted(chat_id, [quote.seq for quotes in plan.recalled for quote in quotes])
    pinned = texts_of(chat_id, (pin.id for pin in plan.pins))
    return rebuild(plan, sections, planned_turns(chat_id, plan), request, said, pinned), snapshot


def card_of(reply: Message | ActiveReply) -> str:
    """Return what became of the memory card of a reply; "" if none was requested, or if the reply is being written."""
    return ContextRecord.objects.filter(pk=reply.pk).values_list("card", flat=True).first() or ""


def material_of(reply: Message) -> tuple[str, tuple[Source, ...]]:
    """Return the instructions and sources that were sent with the question of `reply`, to ask it again."""
    record = ContextRecord.objects.filter(pk=reply.pk).first()
    if record is None:
        return "", ()
    instructions, sources = _texts(reply.chat_id, (record.turn_instructions_hash, record.sources_hash))
    return instructions, _sources(sources)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else ""


def _texts(chat_id: UUID, hashes: Sequence[str]) -> list[str]:
    """Return the stored texts with these hashes, "" for one that is missing. No query if there are none."""
    wanted = [sha256 for sha256 in hashes if sha256]
    rows = ContextText.objects.filter(chat_id=chat_id, sha256__in=wanted).values_list("sha256", "text")
    texts = dict(rows) if wanted else {}
    return [texts.get(sha256, "") for sha256 in hashes]


def _sources(text: str) -> tuple[Source, ...]:
    return tuple(Source(title, body) for title, body in json.loads(text or "[]"))

"""Prepare the context of a chat's brief for one question: load, plan, recall and render within the budget.

The snapshot to store is made here, too, and the context rebuilt from it. `memory.turn` stores it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings

from chatmemory import metrics
from chatmemory.database.owned import ChatKey
from chatmemory.llm import registry
from chatmemory.llm.attachments import attachments_in
from chatmemory.runtime import tracing
from conversations import attachments
from conversations.accounts import quotas
from conversations.models import Across, ActiveReply, Chat, Message, Role
from memory.across.consent import level_of
from memory.briefs import Memory, brief_of
from memory.context import prompt
from memory.context.elsewhere import Elsewhere, find_elsewhere, quoted_chats
from memory.context.plan import RENDERER, Plan, Snapshot, Source, outline_sections
from memory.context.planner import Material, choose, is_lean, sections_cost
from memory.context.prompt import Context, PromptRequest
from memory.history.rows import MAX_ROWS, counts_between, last_question, newest_rows
from memory.history.turns import COUNTS, Step, StoredMessage, Turn, last_assistant_id, to_turns
from memory.limits import MemoryLimits
from memory.models import ContextRecord, ContextText, ConversationBrief, Pin, SummaryRevision
from memory.pins import shared
from memory.pins.pins import holding_pins, messages_of, texts_of
from memory.pins.section import NO_PINS, PinSection, PinText, fit_pins
from memory.policies import POLICIES
from memory.policies.protocol import State, StateSection
from memory.recall.embeddings import near_now
from memory.recall.question_search import Corpus, Recalled, Search, quoted
from memory.recall.ranking import Recall, room_for
from memory.recall.terms import terms

BYTES_SENT_AGAIN = 8 * 1024 * 1024
"""Bytes of images and files that are sent again with one prompt: every question would otherwise send 80 MB."""


def context_of(memory: Memory, unfolded: UnfoldedTurns, request: PromptRequest) -> Context:
    """Return the context for the question of `request`, which follows the turns of `unfolded`."""
    memory = replace(memory, limits=prompt.memory_limits(memory.limits, request))
    pinned = pinned_for(memory, disarms=request.disarms)
    memory = memory.with_budget(memory.limits.prompt_budget - pinned.tokens)
    brief, limits = memory.brief, memory.limits
    last = last_assistant_id(unfolded.turns) if limits.enabled and memory.policy.asks_for_card else None
    outline = outline_sections(stored_outline(brief.chat_key, last))
    state = [*(memory.policy.render(memory.state) if limits.enabled else ()), *outline]
    material = Material(
        state_tokens=sections_cost(state),
        turns=tuple(turn for turn in unfolded.turns if turn.tokens),
        limits=limits,
        window_turns=memory.window(unfolded.turns),
        older_turns=unfolded.older_turns,
        older_from_seq=brief.folded_through_seq + 1,
        anchor_seq=brief.anchor_seq,
    )
    plan = choose(material)
    recall, material, recalled, elsewhere = _recalled(brief, unfolded, state, material, plan, request, pinned)
    if recalled.excerpts:
        plan = choose(material)
    turns = with_text(brief.chat_key, unfolded, plan)
    attached = _sent_again(brief, plan, turns, limits)
    context = prompt.assemble(
        plan,
        material,
        state,
        turns,
        request,
        quoted=recalled.messages,
        pinned=pinned,
        attached=attached,
        elsewhere=elsewhere.section,
    )
    plan = replace(
        context.plan,
        recall=recall,
        outline_of=str(last) if outline else "",
        elsewhere=elsewhere.quotes,
        elsewhere_recall=elsewhere.recall,
    )
    return replace(context, plan=plan)


def _sent_again(brief: ConversationBrief, plan: Plan, turns: Sequence[Turn], limits: MemoryLimits) -> tuple[int, ...]:
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
    there = attachments.stored(brief.owner_id, (one for turn in attached for one in turn.attachments))
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
    """Return the section of the pins that hold in the chat. Without any, and if it shares none, there is no query."""
    brief = memory.brief
    if not memory.limits.enabled:
        return NO_PINS
    pins: Sequence[PinText] = holding_pins(brief.chat_key) if brief.pin_tokens else []
    if level_of(brief.chat) != Across.OFF:
        pins = shared.with_shared_pins(pins, brief.chat)
    return fit_pins(pins, memory.room_for_pins, disarms=disarms) if pins else NO_PINS


def request_of(memory: Memory, request: PromptRequest) -> PromptRequest:
    """Return `request` with what the chat adds to it, and an open turn that fits its budget.

    Instructions that change least come first, so that provider caches hit. While updates are paused, no card is
    requested, because a card is an update.
    """
    chat, limits = memory.brief.chat, memory.limits
    asks = limits.enabled and memory.brief.paused_at is None
    for_card = memory.policy.reply_instructions(limits) if asks else ""
    parts = (chat.instructions, for_card, request.turn_instructions)
    whole = replace(
        request,
        instructions="\n\n".join(part for part in parts if part),
        card_instructions=for_card,
        cache_key=str(chat.pk),
    )
    return prompt.with_fitting_steps(whole, limits.open_turn_budget)


def preview(
    chat: Chat,
    question: str = "",
    *,
    policy: str | None = None,
    budget: int | None = None,
    sources: Sequence[Source] = (),
    by_meaning: bool = True,
) -> Context:
    """Return the context for `question` as it would be sent now, without writing. Another policy has an empty state."""
    brief = brief_of(chat)
    if policy and policy != brief.policy:
        brief = ConversationBrief(chat=chat, policy=policy, options=chat.options, pin_tokens=brief.pin_tokens)
    memory = Memory.of(brief)
    memory = memory if budget is None else memory.with_budget(budget)
    # An owner whose next call would be refused gets no call of the upstream for a preview either.
    may_search = by_meaning and not (registry.embeds() and quotas.is_refused(chat.owner_id))
    near = near_now(chat.key, question) if may_search else ()
    variant = settings.MODEL_VARIANTS[settings.DEFAULT_MODEL_VARIANT]
    disarms = registry.disarms_control_tokens(variant)
    request = PromptRequest(question, sources=tuple(sources), near=tuple(near), disarms=disarms)
    return context_of(memory, load_unfolded(memory), request_of(memory, request))


def preview_last(chat: Chat) -> Context:
    """Return the context as it would be sent now if the last question were asked again, for staff pages.

    Earlier turns are searched only by words: a page view does not request a vector from the upstream.
    """
    return preview(chat, last_question(chat.key), by_meaning=False)


# Loading: counts of the newest unfolded turns, with the texts of those that a plan can show verbatim, so that the cost
# does not grow with the chat


@dataclass(frozen=True, slots=True)
class UnfoldedTurns:
    """The newest unfolded turns before message `before_seq`, oldest first, and their rows. Some have their text."""

    before_seq: int | None
    rows: Sequence[StoredMessage]
    turns: Sequence[Turn]
    older_turns: int = 0
    """Unfolded turns before these."""
    older_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of all unfolded turns."""
        return self.older_tokens + sum(turn.tokens for turn in self.turns)


def load_unfolded(memory: Memory, before_seq: int | None = None) -> UnfoldedTurns:
    """Return about `MAX_TURNS` of the newest unfolded turns (two rows per turn), before `before_seq` if given."""
    chat, after = memory.brief.chat_key, memory.brief.folded_through_seq
    if before_seq == after + 1:  # before a chat's first message there is nothing to read
        return UnfoldedTurns(before_seq, (), ())
    rows = newest_rows(chat, after, before_seq, memory.limits.prompt_budget)
    if len(rows) < MAX_ROWS:
        return UnfoldedTurns(before_seq, rows, to_turns(rows))
    whole = rows[next((at for at, row in enumerate(rows) if row.role == Role.USER), 0) :]
    return UnfoldedTurns(before_seq, whole, to_turns(whole), *counts_between(chat, after, whole[0].seq))


def stored_outline(chat: ChatKey, message_id: UUID | str | None) -> str:
    """Return the current outline of a reply; "" for None, and for a reply that no longer exists."""
    if not message_id:
        return ""
    outlines = Message.objects.filter(pk=message_id, **chat.columns).values_list("outline", flat=True)
    return outlines.first() or ""


def with_text(chat: ChatKey, unfolded: UnfoldedTurns, plan: Plan) -> Sequence[Turn]:
    """Return the turns of `unfolded`, those that `plan` shows verbatim with their texts."""
    shown = plan.verbatim_seqs
    missing = [row.seq for row in unfolded.rows if row.content is None and row.seq in shown]
    if not missing:
        return unfolded.turns
    messages = Message.objects.filter(**chat.columns, seq__in=missing)
    rows = {row.seq: row for row in map(StoredMessage._make, messages.values_list(*StoredMessage._fields))}
    return to_turns([rows.get(row.seq, row) for row in unfolded.rows])


def planned_turns(chat: ChatKey, plan: Plan) -> Sequence[Turn]:
    """Return the turns that a stored plan names, as they are now, with text where it shows them verbatim."""
    seqs = {*plan.verbatim_seqs, *(seq for line in plan.lines for seq in line)}
    if not seqs:
        return []
    messages = Message.objects.filter(**chat.columns, seq__range=(min(seqs), max(seqs))).order_by("seq")
    rows = [StoredMessage(*row) for row in messages.values_list(*COUNTS)]
    return with_text(chat, UnfoldedTurns(None, rows, to_turns(rows)), plan)


def open_steps(chat: ChatKey, seqs: Sequence[int]) -> tuple[Step, ...]:
    """Return messages of a turn that was open when they were sent, as they are now."""
    if not seqs:
        return ()
    rows = Message.objects.filter(**chat.columns, seq__in=seqs).order_by("seq")
    return tuple(Step(*row) for row in rows.values_list("role", "content", "payload"))


def _recalled(
    brief: ConversationBrief,
    unfolded: UnfoldedTurns,
    state: Sequence[StateSection],
    material: Material,
    plan: Plan,
    request: PromptRequest,
    pinned: PinSection,
) -> tuple[Recall, Material, Recalled, Elsewhere]:
    """Decide what a prompt recalls that would otherwise show `plan`, made of `material`.

    Return the decision, the material for planning again with the excerpts, these, and what is quoted of other chats.
    The chat itself is not searched while every turn of it is verbatim in the prompt.
    """
    limits, chat = material.limits, brief.chat
    before = chat.last_seq + 1 if unfolded.before_seq is None else unfolded.before_seq

    def elsewhere(plan: Plan, *, is_whole: bool = False) -> Elsewhere:
        question, disarms = request.question, request.disarms
        if level_of(chat) != Across.ALL:
            return Elsewhere()
        return find_elsewhere(chat, question, before, limits, plan.free, is_whole=is_whole, disarms=disarms)

    if not limits.recalls:
        return Recall("none", "off"), material, Recalled(), elsewhere(plan)
    beyond = unfolded.older_turns or brief.folded_through_seq
    if not beyond and len(plan.verbatim) == len(material.turns):
        return Recall("none", "all_shown"), material, Recalled(), elsewhere(plan, is_whole=True)
    began = time.perf_counter()
    with tracing.memory_span("search_memory", brief.chat_id):
        search = Search(Corpus.of_chat(chat.key, before), request.question, request.near)
        remembered = frozenset(terms("\n".join(section.text for section in state)))
        recall, recalled = search.decision(limits, search.known(plan.verbatim_seqs, remembered)), Recalled()
        lean = is_lean(recall)
        if lean:
            plan = choose(replace(material, lean=True))
        others = elsewhere(plan)
        if recall.sought != "none":
            room = room_for(recall, limits, plan.free - others.section.tokens)
            unshown_pins = messages_of(brief.chat_key, pinned.not_whole)
            recalled = search.recalled(room, plan.verbatim_seqs, unshown_pins)
            if recalled.excerpts:
                material = replace(material, excerpts=recalled.excerpts, recall_tokens=room, lean=lean)
        tracing.describe({"gen_ai.memory.record.count": len(recalled.excerpts)})
    metrics.RECALL.labels("found" if recalled.excerpts else "nothing").observe(time.perf_counter() - began)
    return recall, material, recalled, others


# The record of a prompt, from which it is rebuilt byte for byte
#
# Texts that are stored nowhere else (instructions, sources, tools) are stored once per chat, by hash.


def snapshot_of(memory: Memory, context: Context, request: PromptRequest, **of_the_turn: Any) -> Snapshot:
    """Return the snapshot of `context`, with further fields. Store its texts that are stored nowhere else."""
    brief, turn_instructions = memory.brief, request.turn_instructions
    sources = json.dumps([[source.title, source.text] for source in request.sources]) if request.sources else ""
    tools = prompt.tools_text(request.tools)
    texts = {_hash(text): text for text in (request.instructions, turn_instructions, sources, tools) if text}
    if texts:
        rows = [ContextText(**brief.chat_key.columns, sha256=sha256, text=text) for sha256, text in texts.items()]
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
        **{"anchor_before": brief.anchor_seq, **of_the_turn},
    )


def stored_snapshot(reply: Message | ActiveReply) -> Snapshot | None:
    """Return the stored snapshot of the prompt of `reply`. None for an imported message, or a user's."""
    if isinstance(reply, ActiveReply):
        return Snapshot.from_json(reply.context)
    row = ContextRecord.objects.filter(reply=reply).values().first()
    return Snapshot.from_json(row) if row else None


def past_context(reply: Message | ActiveReply) -> tuple[Context, Snapshot] | None:
    """Rebuild the context of `reply` from its snapshot; return both. None if no snapshot is stored."""
    snapshot = stored_snapshot(reply)
    question = reply.user_message if isinstance(reply, ActiveReply) else reply.reply_to
    if snapshot is None or question is None:
        return None
    chat, plan = reply.chat_key, snapshot.plan
    request = sent_request(question, snapshot, snapshot.instructions_hash)
    revision = SummaryRevision.objects.filter(**chat.columns, version=snapshot.revision).first()
    state = State.from_json(revision.global_summary, revision.state) if revision else State()
    outline = outline_sections(stored_outline(chat, plan.outline_of), plan.renderer)
    sections = [*POLICIES[snapshot.policy].render(state), *outline]
    messages = quoted(chat, [quote.seq for quotes in plan.recalled for quote in quotes])
    pinned = texts_of(chat.owner_id, (pin.id for pin in plan.pins))
    others = quoted_chats(chat.owner_id, [(one.chat, quote) for one in plan.elsewhere for quote in one.quotes])
    return prompt.rebuild(plan, sections, planned_turns(chat, plan), request, messages, pinned, others), snapshot


CHANGED = "A message before it has been edited or deleted since."
RENDERED = "It was sent by an earlier version of chatmemory, which built prompts differently."
PINNED = "A pin that was in it has been removed or changed."
ELSEWHERE = "A chat or message that it quotes has been changed or deleted since."
OTHER = "Something it was built from has changed."


def why_not_exact(reply: Message | ActiveReply, context: Context, sent: Snapshot) -> str | None:
    """Return why `context`, rebuilt for `reply`, differs from what was sent; None if it is the same byte for byte."""
    if context.prompt_hash == sent.prompt_hash:
        return None
    if isinstance(reply, Message):
        before = Message.objects.filter(**reply.chat_key.columns, seq__lt=reply.seq)
        if before.filter(edited_at__gte=reply.created_at).exists():
            return CHANGED
    pins = {pin.id for pin in sent.plan.pins}
    if Pin.objects.filter(owner_id=reply.owner_id, pk__in=pins).count() < len(pins):
        return PINNED
    if context.plan.renderer != RENDERER:
        return RENDERED
    return ELSEWHERE if sent.plan.elsewhere else OTHER


def sent_request(question: Message, sent: Snapshot, instructions_hash: str) -> PromptRequest:
    """Return the request that the prompt `sent` was made for, with the instructions of that hash."""
    chat, plan = question.chat_key, sent.plan
    instructions, sources, tools = _texts(chat, (instructions_hash, sent.sources_hash, sent.tools_hash))
    return PromptRequest(
        question.content,
        instructions,
        _sources(sources),
        str(chat.id),
        tools=tuple(json.loads(tools or "[]")),
        open_turn=open_steps(chat, plan.open_turn),
        open_clips=plan.open_clips,
        attachments=attachments_in(question.payload),
    )


def card_of(reply: Message | ActiveReply) -> str:
    """Return the outcome of the memory card of a reply; "" without a request for one, or while it is being written."""
    return (
        ContextRecord.objects.filter(pk=reply.pk, owner_id=reply.owner_id).values_list("card", flat=True).first() or ""
    )


def material_of(chat: ChatKey, sent: Snapshot) -> tuple[str, tuple[Source, ...]]:
    """Return the turn's own instructions and the sources of a prompt."""
    instructions, sources = _texts(chat, (sent.turn_instructions_hash, sent.sources_hash))
    return instructions, _sources(sources)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else ""


def _texts(chat: ChatKey, hashes: Sequence[str]) -> list[str]:
    """Return the stored texts with these hashes, "" for one that is missing. No query if there are none."""
    needed = [sha256 for sha256 in hashes if sha256]
    rows = ContextText.objects.filter(**chat.columns, sha256__in=needed).values_list("sha256", "text")
    texts = dict(rows) if needed else {}
    return [texts.get(sha256, "") for sha256 in hashes]


def _sources(text: str) -> tuple[Source, ...]:
    return tuple(Source(title, body) for title, body in json.loads(text or "[]"))

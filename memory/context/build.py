"""Prepare the context of a chat's brief for one question: load, plan, recall and render within the budget."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Case, F, QuerySet, Sum, When, Window

from chatmemory.database.compiled import Select
from chatmemory.llm import registry
from conversations import attachments
from conversations.accounts import quotas
from conversations.models import Chat, Message, Role
from memory.briefs import Memory, brief_of
from memory.context.plan import Plan
from memory.context.planner import Material, choose, sections_cost
from memory.context.prompt import Context, PromptRequest, assemble, memory_limits, with_fitting_steps
from memory.context.render import Source, outline_sections
from memory.history.rows import COUNTS, MAX_SEQ, counts_between, stored
from memory.history.turns import Step, StoredMessage, Turn, to_turns
from memory.limits import MAX_TURNS, MemoryLimits
from memory.models import ConversationBrief
from memory.pins.pins import holding_pins
from memory.pins.section import NO_PINS, PinSection, fit_pins
from memory.policies import StateSection
from memory.recall import index
from memory.recall.embeddings import last_question, near_now
from memory.recall.excerpts import RecalledMessage
from memory.recall.index import Recalled, Search
from memory.recall.ranking import Recall, is_lean, room_for
from memory.recall.terms import terms

logger = logging.getLogger(__name__)

BYTES_SENT_AGAIN = 8 * 1024 * 1024
"""Bytes of images and files that are sent again with one prompt: every question would otherwise send 80 MB."""


def context_of(memory: Memory, span: Newest, asked: PromptRequest) -> Context:
    """Return the context for the question of `asked`, which follows the turns of `span`."""
    memory = replace(memory, limits=memory_limits(memory.limits, asked))
    pinned = pinned_for(memory, disarms=asked.disarms)
    memory = memory.with_budget(memory.limits.prompt_budget - pinned.tokens)
    brief, limits = memory.brief, memory.limits
    state: list[StateSection] = memory.policy.render(memory.state) if limits.enabled else []
    last = last_reply(span) if limits.enabled and memory.policy.asks_for_card else None
    outline = outline_sections(stored_outline(brief.chat_id, last)) if last else []
    state = [*state, *outline]
    material = Material(
        state_tokens=sections_cost(state),
        turns=tuple(turn for turn in span.turns if turn.tokens),
        limits=limits,
        window_turns=memory.window(span.turns),
        older_turns=span.older_turns,
        older_from_seq=brief.folded_through_seq + 1,
        anchor_seq=brief.anchor_seq,
    )
    plan = choose(material)
    recall = recall_for_plan(brief, span, state, material, plan, asked)
    if recall.found.excerpts:
        material = recall.material
        plan = choose(material)
    turns = with_text(brief.chat_id, span, plan)
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
    return fit_pins(holding_pins(memory.brief.chat_id), memory.room_for_pins, disarms=disarms)


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
        disarms=registry.disarms_control_tokens(),
    )
    return with_fitting_steps(whole, limits.open_turn_budget)


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
    near = near_now(chat.pk, question) if may_search else ()
    request = PromptRequest(question, sources=tuple(sources), near=tuple(near))
    return context_of(memory, newest(memory), request_of(memory, request))


def preview_last(chat: Chat) -> Context:
    """Return the context as it would be sent now if the last question were asked again, for staff pages.

    Earlier turns are searched only by words: a page view does not request a vector from the upstream.
    """
    return preview(chat, last_question(chat.pk), by_meaning=False)


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


# Loading: counts of the newest unfolded turns, with the texts of those that a plan can show verbatim, so that the cost
# does not grow with the chat


MAX_ROWS = 2 * MAX_TURNS


def _newest_rows(chat: UUID, after: int, before: int, room: int) -> QuerySet[Message, Any]:
    """The newest rows; each has its text as long as the newer ones have at most `room` tokens together.

    So the texts that a plan shows mostly come with the counts, and only a chat with giants or long outputs of tools
    needs a second query.
    """
    newer = Window(Sum("token_count"), order_by=F("seq").desc()) - F("token_count")
    texts = [Case(When(newer__lte=room, then=F(name))) for name in ("content", "payload")]
    rows = Message.objects.filter(chat_id=chat, seq__gt=after, seq__lt=before).annotate(newer=newer)
    return rows.order_by("-seq").values_list(*COUNTS, *texts)[:MAX_ROWS]


_NEWEST = Select(_newest_rows, UUID, int, int, int)


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest unfolded turns before message `before_seq`, oldest first, without text, and their rows."""

    before_seq: int | None
    rows: tuple[StoredMessage, ...]
    turns: tuple[Turn, ...]
    texts: Mapping[int, tuple[str, Any]]
    """Content and payload of the newest rows, by seq."""
    older_turns: int = 0
    """Unfolded turns before these."""
    older_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of all unfolded turns."""
        return self.older_tokens + sum(turn.tokens for turn in self.turns)


def newest(memory: Memory, before_seq: int | None = None) -> Newest:
    """Return about `MAX_TURNS` of the newest unfolded turns (two rows per turn), before `before_seq` if given."""
    brief, after = memory.brief, memory.brief.folded_through_seq
    before = MAX_SEQ if before_seq is None else before_seq
    found = []
    if before > after + 1:  # before a chat's first message there is nothing to read
        found = _NEWEST.rows(brief.chat_id, after, before, memory.limits.prompt_budget)
    rows = [stored(row[: len(COUNTS)]) for row in reversed(found)]
    texts = {seq: (content, payload) for _, seq, *_, content, payload in found if content is not None}
    if len(found) < MAX_ROWS:
        return Newest(before_seq, tuple(rows), tuple(to_turns(rows)), texts)
    first = next((index for index, row in enumerate(rows) if row.role == Role.USER), 0)
    whole = tuple(rows[first:])
    older = counts_between(brief.chat_id, after, whole[0].seq)
    return Newest(before_seq, whole, tuple(to_turns(whole)), texts, *older)


def last_reply(span: Newest) -> UUID | None:
    """The id of the newest reply in `span`; None if there is none."""
    return next((turn.last_assistant_id for turn in reversed(span.turns) if turn.last_assistant_id), None)


def stored_outline(chat_id: UUID, message_id: UUID | str | None) -> str:
    """Return the current outline of a reply; "" for None, and for a reply that no longer exists."""
    if not message_id:
        return ""
    found = Message.objects.filter(pk=message_id, chat_id=chat_id).values_list("outline", flat=True)
    return found.first() or ""


def with_text(chat_id: UUID, span: Newest, plan: Plan) -> list[Turn]:
    """Return the turns of `span` with the texts of those that `plan` shows verbatim."""
    verbatim = {seq for low, high in _shown(plan) for seq in range(low, high + 1)}
    shown = [row for row in span.rows if row.seq in verbatim]
    missing = [
        row.seq for row in shown if row.seq not in span.texts and (row.token_count or row.role != Role.USER)
    ]
    texts = {**span.texts, **(_texts(chat_id, missing) if missing else {})}
    whole = to_turns([_loaded(row, *texts.get(row.seq, ("", None))) for row in shown])
    by_seq = {turn.from_seq: turn for turn in whole}
    return [_said(turn, by_seq.get(turn.from_seq)) for turn in span.turns]


def planned_turns(chat_id: UUID, plan: Plan) -> list[Turn]:
    """Return the turns that a stored plan names, as they are now, with text where it shows them verbatim."""
    spans = sorted([*((line.from_seq, line.through_seq) for line in plan.lines), *_shown(plan)])
    if not spans:
        return []
    messages = Message.objects.filter(
        chat_id=chat_id, seq__range=(spans[0][0], max(high for _, high in spans))
    )
    rows = [stored(row) for row in messages.order_by("seq").values_list(*COUNTS)]
    return with_text(chat_id, Newest(None, tuple(rows), tuple(to_turns(rows)), {}), plan)


def _shown(plan: Plan) -> Iterable[tuple[int, int]]:
    return ((shown.from_seq, shown.through_seq) for shown in plan.verbatim)


def _loaded(row: StoredMessage, content: str, payload: Mapping[str, Any] | None) -> StoredMessage:
    return replace(row, content=content, payload=payload)


def open_steps(chat_id: UUID, seqs: Sequence[int]) -> tuple[Step, ...]:
    """Return messages of a turn that was open when they were sent, as they are now."""
    if not seqs:
        return ()
    rows = Message.objects.filter(chat_id=chat_id, seq__in=seqs).order_by("seq")
    return tuple(Step(*row) for row in rows.values_list("role", "content", "payload"))


def _texts(chat_id: UUID, seqs: Sequence[int]) -> dict[int, tuple[str, Any]]:
    rows = Message.objects.filter(chat_id=chat_id, seq__in=seqs).values_list("seq", "content", "payload")
    return {seq: (content, payload) for seq, content, payload in rows}


def _said(turn: Turn, whole: Turn | None) -> Turn:
    """Return `turn` with the texts of `whole`, which was made of those of its rows that are shown."""
    if whole is None:
        return turn
    return replace(
        turn, user=whole.user, assistant=whole.assistant, steps=whole.steps, attachments=whole.attachments
    )


# What a prompt recalls of earlier turns, in addition to what it shows of memory anyway


@dataclass(frozen=True, slots=True)
class PlanRecall:
    """What is recalled for a plan: the decision, the excerpts, and the material for planning again with them."""

    decision: Recall
    material: Material
    found: Recalled = field(default_factory=Recalled)


def recall_for_plan(
    brief: ConversationBrief,
    span: Newest,
    state: Sequence[StateSection],
    material: Material,
    plan: Plan,
    asked: PromptRequest,
) -> PlanRecall:
    """Return what is recalled for a prompt that would otherwise show `plan`, made of `material`.

    Nothing is searched while every turn of the chat is verbatim in the prompt.
    """
    limits = material.limits
    if not limits.recalls:
        return PlanRecall(Recall("none", "off"), material)
    is_shown = {one.from_seq for one in plan.verbatim}
    verbatim = [turn for turn in span.turns if turn.from_seq in is_shown]
    beyond = span.older_turns or brief.folded_through_seq
    if not beyond and len(verbatim) == sum(turn.tokens > 0 for turn in span.turns):
        return PlanRecall(Recall("none", "all_shown"), material)
    if not asked.question:
        return PlanRecall(Recall("none", "no_words"), material)
    before = brief.chat.last_seq + 1 if span.before_seq is None else span.before_seq
    search = Search(brief.chat, asked.question, before_seq=before, near=asked.near)
    remembered = frozenset(terms("\n".join(section.text for section in state)))
    decision = search.decision(limits, _seqs(verbatim), remembered)
    if decision.sought == "none":
        return PlanRecall(decision, material)
    if lean := is_lean(decision):
        plan = choose(replace(material, lean=True))
        verbatim = verbatim[-len(plan.verbatim) :] if plan.verbatim else []
    room = room_for(decision, limits, plan.free)
    found = search.recalled(room, _seqs(verbatim))
    return PlanRecall(
        decision, replace(material, excerpts=found.excerpts, recall_tokens=room, lean=lean), found
    )


def _seqs(turns: Iterable[Turn]) -> Iterator[int]:
    return chain.from_iterable(range(turn.from_seq, turn.through_seq + 1) for turn in turns)


def quoted(chat_id: UUID, plan: Plan) -> dict[int, RecalledMessage]:
    """Return the messages that a stored plan quotes, as they are now, by seq."""
    return index.quoted(chat_id, [quote.seq for quotes in plan.recalled for quote in quotes])

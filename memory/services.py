"""The interface of memory for conversations.

`context_for` prepares a prompt before a reply (call `freshen` and repeat if it raises `StaleMemory`); `turn_finished`
runs in the transaction that finishes the reply, `messages_changed` when messages are added, removed or changed in
other ways, and `policy_changed` and `options_changed` when the memory of a chat is to be kept differently. A finished
reply is counted, and the chat folded if due, by memory's own post-save receiver, which calls `count_reply`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from chatmemory.database.compiled import Select
from chatmemory.database.compiled_writes import Insert, Update
from chatmemory.llm import registry
from chatmemory.llm.attachments import Attachment
from chatmemory.llm.protocol import Prompt
from conversations.accounts import quotas
from conversations.models import Chat, Message, Status
from memory.briefs import Memory, brief_of, decide_due, history_tokens
from memory.briefs import Standing as Standing
from memory.context.build import card_instructions, context_of, log_cuts, newest, prompt_request
from memory.context.plan import Snapshot
from memory.context.prompt import Context, with_fitting_steps
from memory.context.record import card_of as card_of
from memory.context.record import material_of as material_of
from memory.context.record import outline_of as outline_of
from memory.context.record import past_context as past_context
from memory.context.record import snapshot_of
from memory.context.record import tools_of as tools_of
from memory.context.render import Source
from memory.explain.trace import Trace, trace
from memory.folding import dispatch
from memory.folding.card import publish_card
from memory.history.rows import newest_turns
from memory.history.turns import Step
from memory.lazy_fold import StaleMemory as StaleMemory
from memory.lazy_fold import freshen as freshen
from memory.lazy_fold import require_fresh
from memory.models import (
    CardOutcome,
    ChatEmbeddings,
    ContextRecord,
    ContextText,
    ConversationBrief,
    MessageEmbedding,
    Pin,
    SummaryRevision,
    new_brief,
)
from memory.pins.pins import exported_pins as exported_pins
from memory.pins.pins import message_changed as message_changed
from memory.pins.pins import pin_imported as pin_imported
from memory.pins.pins import pin_statements
from memory.pins.pins import restore_pins as restore_pins
from memory.pins.pins import stated_in as stated_in
from memory.recall import embeddings
from memory.recall.embeddings import has_vectors as has_vectors
from memory.recall.embeddings import last_question as last_question
from memory.recall.embeddings import near_in_meaning as near_in_meaning
from memory.recall.embeddings import near_now
from memory.recall.query import read_question
from memory.recall.ranking import Near as Near
from memory.revisions import step_back
from memory.revisions.branch import chat_branched as chat_branched
from memory.revisions.policy_change import is_by_another_policy as is_by_another_policy
from memory.revisions.policy_change import options_changed as options_changed
from memory.revisions.policy_change import policy_changed as policy_changed
from memory.usage import daily
from memory.usage.daily import ratio_of as ratio_of

_BRIEF = Select(lambda chat: ConversationBrief.objects.filter(pk=chat), UUID)
_NEW_BRIEF = Insert(ConversationBrief)
_DUE = Update(ConversationBrief, "due")
_ANCHORED = Update(ConversationBrief, "anchor_seq")
_RECORD = Insert(ContextRecord)
_LOCKED_BRIEF = Select(lambda chat: ConversationBrief.objects.select_for_update().filter(pk=chat), UUID)


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A prompt that is about to be sent, and what is stored of it."""

    prompt: Prompt
    snapshot: Snapshot
    standing: Standing | None
    """What is known of the unfolded turns; None if there are too many to know them all."""

    @property
    def brings_card(self) -> bool:
        """Whether the reply will contain a block that its reader must not see (`memory.policies.card.stream`)."""
        return self.snapshot.card_epoch is not None


def context_for(
    chat: Chat,
    *,
    question: str,
    before_seq: int,
    turn_instructions: str = "",
    sources: Sequence[Source] = (),
    again: bool = False,
    may_wait: bool = False,
    near: Sequence[Near] = (),
    tools: Sequence[Mapping[str, Any]] = (),
    open_turn: Sequence[tuple[int, Step]] = (),
    attachments: Sequence[Attachment] = (),
) -> PreparedPrompt:
    """Prepare the prompt for `question`, the user message `before_seq`.

    Call it in the transaction that begins a turn. The cost does not depend on the chat's length. A turn's own
    instructions follow the chat's.

    - `again`: the question is answered again and may have been counted as a turn. What memory knows from an answer to
      it is left out.
    - `may_wait`: raise `StaleMemory` if the chat should be folded first.
    - `near`: the messages that `memory.recall.embeddings` found for the question.
    - `tools`: the client's tools.
    - `open_turn`: what has followed the question so far, by seq. `attachments`: what came with the question.
    """
    # If another process creates it at the same moment, the turn is begun once more (`begin._once`).
    brief = _BRIEF.first(chat.pk) or _NEW_BRIEF.save(ConversationBrief(chat=chat, **new_brief(chat)))
    memory = Memory.of(brief, chat)
    if may_wait:
        require_fresh(memory)
    if again and before_seq <= brief.seen_seq:
        step_back.step_back(brief, before_seq)
        memory = Memory.of(brief)
    for_card = card_instructions(memory)
    asked = replace(
        prompt_request(chat, question, for_card, turn_instructions, sources),
        tools=tuple(tools),
        open_turn=tuple(step for _, step in open_turn),
        attachments=tuple(attachments),
    )
    asked = with_fitting_steps(asked, memory.limits.open_turn_budget)
    span = newest(brief, before_seq)
    context = context_of(memory, span, asked, near)
    if open_turn:
        context = replace(context, plan=replace(context.plan, open_turn=tuple(seq for seq, _ in open_turn)))
    log_cuts(chat, context)
    snapshot = replace(
        snapshot_of(memory, context, asked, turn_instructions),
        again=again,
        history_tokens=history_tokens(brief, None if span.older_turns else span.tokens),
        card_epoch=brief.epoch if for_card else None,
    )
    standing = None if span.older_turns else Standing(memory, span.turns)
    return PreparedPrompt(context.prompt, snapshot, standing)


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
    near = near_now(chat.pk, question) if by_meaning and not _is_over_limits(chat) else ()
    asked = prompt_request(chat, question, card_instructions(memory), "", sources)
    return context_of(memory, newest(brief), asked, near)


def preview_last(chat: Chat) -> Context:
    """Return the context as it would be sent now if the last question were asked again, for staff pages.

    Earlier turns are searched only by words: a page view does not request a vector from the upstream.
    """
    return preview(chat, last_question(chat.pk), by_meaning=False)


def trace_fact(chat: Chat, text: str) -> Trace | None:
    """Trace where `text` was said in `chat`, which versions had it or lost it, and how a prompt would have it now.

    No upstream is called. None if `text` has no words to search for.
    """
    if not read_question(text, chat.owner_id).words:
        return None
    return trace(chat, text, preview(chat, text, by_meaning=False))


def _is_over_limits(chat: Chat) -> bool:
    """Whether the owner's next call would be refused: then a preview does not call the upstream either."""
    return registry.embeds() and quotas.is_refused(chat.owner_id)


def turn_finished(reply: Message, sent: Snapshot, card: str = "") -> None:
    """Store what the model was sent for `reply`, and the `card` that came with it.

    Call it in the transaction that finishes the reply, after it was saved.
    """
    if sent.plan.anchor_seq != sent.anchor_before:
        _ANCHORED.set(reply.chat_id, sent.plan.anchor_seq)
    if sent.again and reply.reply_to is not None:
        # An answer that replaces none changes nothing, but the question may not have been counted.
        changed = reply if reply.status == Status.FAILED or reply.superseded_by_id else reply.reply_to
        messages_changed(reply.chat_id, from_seq=changed.seq)
    brings_card = sent.card_epoch is not None and not reply.leaves_open
    became = publish_card(reply, sent, card) if brings_card else CardOutcome.NONE
    columns = {**sent.columns(), "card": became, "history_tokens": sent.history_tokens}
    _RECORD.save(ContextRecord(reply=reply, **columns))
    if reply.reply_to is not None and not reply.leaves_open:
        pin_statements(reply.reply_to)


def count_reply(reply: Message) -> None:
    """Have the chat folded if the turn that `reply` finishes makes it due.

    Called by the post-save receiver. Mostly what was known when the turn began shows that it does not. Another answer
    to a question that was answered before adds no turn: `turn_finished` decides then.
    """
    question = reply.reply_to
    if question is None or reply.leaves_open:
        return
    is_whole_turn = reply.seq == question.seq + 1
    if (
        is_whole_turn
        and isinstance(known := reply.standing, Standing)
        and not known.is_due_after(question, reply)
    ):
        return
    if is_whole_turn or reply.after_tools:
        turn_closed(reply.chat_id)


def turn_closed(chat_id: UUID) -> None:
    """Have the chat folded if it is due by now: its last turn is finished, and no other has begun."""
    brief = _LOCKED_BRIEF.first(chat_id)
    assert brief is not None  # the turn began with it
    newest = newest_turns(chat_id, brief.folded_through_seq)
    brief.due = Memory.of(brief).is_due(newest)
    _DUE.save(brief)
    dispatch.enqueue_if_ready(brief)


def messages_changed(chat_id: UUID, *, from_seq: int, forgets: bool = False) -> ConversationBrief:
    """Update memory after messages from `from_seq` on were added, removed or changed, other than by a turn.

    The brief steps back to the newest revision that had not seen them, and a fold in progress cannot publish. The
    remaining turns are folded again when due. Call it in the transaction of the change; it returns the updated brief.

    With `forgets`, the old text must not be kept anywhere, so what later revisions say is deleted, too.
    """
    brief, _ = ConversationBrief.objects.select_for_update().get_or_create(
        chat_id=chat_id, defaults=new_brief(Chat.objects.only("policy", "options").get(pk=chat_id))
    )
    delay = _demanded(brief, from_seq) if forgets else 0
    brief.epoch += 1
    embeddings.step_back(chat_id, from_seq)
    if forgets:
        step_back.retract(brief, from_seq)
    elif from_seq <= brief.seen_seq:
        step_back.step_back(brief, from_seq)
    decide_due(brief)
    brief.save()
    dispatch.enqueue_if_ready(brief)
    if not delay:  # otherwise the sweep has it done
        embeddings.enqueue_chat(chat_id)
    return brief


def _demanded(brief: ConversationBrief, from_seq: int) -> int:
    """Count an edit that causes another fold; return the seconds by which that is delayed. Edits are never refused."""
    if from_seq > brief.seen_seq and not (brief.due or brief.requested):
        return 0
    delay = quotas.rebuild_delay(brief.chat.owner_id)
    dispatch.mark_demanded(brief, delay)
    return delay


def chat_deleted(chat_id: UUID) -> None:
    """Delete all memory of a chat. Call it in the transaction that deletes the chat, before its messages are deleted.

    It runs one statement per table for any number of rows; Django's cascade would load every row.
    """
    daily.count_chat(chat_id)
    ContextRecord.objects.filter(reply__chat_id=chat_id).delete()
    for model in (
        Pin,
        ContextText,
        SummaryRevision,
        ConversationBrief,
        MessageEmbedding,
        ChatEmbeddings,
    ):
        model.objects.filter(chat_id=chat_id).delete()

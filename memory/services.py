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
from chatmemory.text.tokens import MESSAGE_OVERHEAD
from conversations.accounts import quotas
from conversations.models import Chat, Message, Status
from memory import briefs, counters
from memory.briefs import limits_less_pins, limits_of
from memory.context import load
from memory.context.assemble import Context, with_fitting_steps
from memory.context.prepare import card_request, context_of, log_cuts, prompt_request
from memory.context.prompt_budget import memory_limits
from memory.context.record import RECORDED, record_of
from memory.context.record import card_of as card_of
from memory.context.record import history_tokens_before as history_tokens_before
from memory.context.record import material_of as material_of
from memory.context.record import outline_of as outline_of
from memory.context.record import past_context as past_context
from memory.context.record import tools_of as tools_of
from memory.context.sources import Source
from memory.counters import Tally as Tally
from memory.explain.trace import Trace, trace
from memory.folding import card as carding
from memory.folding import dispatch
from memory.history.costs import line_cost
from memory.history.rows import each_turn
from memory.history.tool_steps import Step
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
)
from memory.models.briefs import new_brief
from memory.pause import counts_at_pause
from memory.pins import by_rule
from memory.pins.by_rule import exported_pins as exported_pins
from memory.pins.by_rule import message_changed as message_changed
from memory.pins.by_rule import pin_imported as pin_imported
from memory.pins.by_rule import restore_pins as restore_pins
from memory.pins.by_rule import stated_in as stated_in
from memory.policies import get_policy, is_due, state_tokens, with_window
from memory.policies.card.policy import CardRequest
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
_COUNTED = Update(ConversationBrief, *counters.COUNTERS)
_ANCHORED = Update(ConversationBrief, "anchor_seq")
_RECORD = Insert(ContextRecord)
_LOCKED_BRIEF = Select(lambda chat: ConversationBrief.objects.select_for_update().filter(pk=chat), UUID)


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A prompt that is about to be sent, and the JSON record from which it can be rebuilt byte for byte."""

    prompt: Prompt
    record: dict[str, Any]
    brings_card: bool = False
    """Whether the reply will contain a block that its reader must not see (`memory.policies.card.stream`)."""


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
    must_call: bool = False,
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
    - `tools`: the client's tools. `must_call`: the model has to call one of them, so ours is not offered.
    - `open_turn`: what has followed the question so far, by seq. `attachments`: what came with the question.
    """
    # If another process creates it at the same moment, the turn is begun once more (`begin._once`).
    brief = _BRIEF.first(chat.pk) or _NEW_BRIEF.save(ConversationBrief(chat=chat, **new_brief(chat)))
    brief.chat = chat  # loaded already, for its instructions
    if may_wait:
        require_fresh(brief)
    said = None if again else counters.said_tokens(brief)
    if again and before_seq <= brief.seen_seq:
        step_back.step_back(brief, before_seq)
    limits = limits_of(brief)
    request = card_request(brief, limits)
    if must_call and request.form == "tool":
        request = CardRequest()
    asked = replace(
        prompt_request(chat, question, request, turn_instructions, sources),
        tools=tuple(tools),
        open_turn=tuple(step for _, step in open_turn),
        attachments=tuple(attachments),
    )
    asked = with_fitting_steps(asked, limits.open_turn_budget)
    context = context_of(brief, asked, before_seq, memory_limits(limits, asked), near)
    if open_turn:
        context = replace(context, plan=replace(context.plan, open_turn=tuple(seq for seq, _ in open_turn)))
    log_cuts(chat, context)
    record = {**record_of(chat, brief, context, asked, turn_instructions), "again": again, "said": said}
    if request.form:
        record |= carding.card_request_fields(brief, request)
    return PreparedPrompt(context.prompt, record, brings_card=request.form == "block")


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
    brief = ConversationBrief.objects.filter(chat=chat).first() or ConversationBrief(
        chat=chat, **new_brief(chat)
    )
    if policy and policy != brief.policy:
        brief = ConversationBrief(chat=chat, policy=policy, options=chat.options, pin_tokens=brief.pin_tokens)
    brief.chat = chat  # loaded already, for its owner
    limits = limits_of(brief)
    limits = limits if budget is None else replace(limits, prompt_budget=budget)
    request = card_request(brief, limits)
    near = near_now(chat.pk, question) if by_meaning and not _is_over_limits(chat) else ()
    asked = prompt_request(chat, question, request, "", sources)
    return context_of(brief, asked, None, memory_limits(limits, asked), near)


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


def turn_finished(reply: Message, record: dict[str, Any], card: str = "") -> None:
    """Store what the model was sent for `reply`, and the `card` that came with it.

    Call it in the transaction that finishes the reply, after it was saved.
    """
    anchor = record["plan"]["anchor_seq"]
    if anchor != record["anchor_before"]:
        _ANCHORED.set(reply.chat_id, anchor)
    said = record.get("said")  # none in the record of a reply that an older version began
    if record["again"] and reply.reply_to is not None:
        # An answer that replaces none changes nothing, but the question may not have been counted.
        changed = reply if reply.status == Status.FAILED or reply.superseded_by_id else reply.reply_to
        said = _said_before(reply, messages_changed(reply.chat_id, from_seq=changed.seq))
    asked_for_card = carding.requested_card(record) and not reply.leaves_open
    became = carding.publish_card(reply, record, card) if asked_for_card else CardOutcome.NONE
    recorded = {name: record[name] for name in RECORDED if name in record}
    _RECORD.save(ContextRecord(reply=reply, card=became, history_tokens=said, **recorded))
    if reply.reply_to is not None and not reply.leaves_open:
        by_rule.pin_statements(reply.reply_to)


def count_reply(reply: Message) -> None:
    """Count the turn that `reply` finishes, and have the chat folded if it is now due.

    Called by the post-save receiver. Another answer to a question that was counted does not add a turn:
    `turn_finished` recounts.
    """
    question = reply.reply_to
    if question is None or reply.leaves_open:
        return
    if reply.after_tools:
        turn_closed(reply.chat_id, question.seq)
    elif reply.seq == question.seq + 1:
        _count_turn(reply.chat_id, _tokens_of(question, reply), reply.line)


def turn_closed(chat_id: UUID, question_seq: int) -> None:
    """Count the chat's last turn, which has tool calls, from its messages, as `count_reply` does."""
    for turn in each_turn(chat_id, question_seq - 1, None, text=False):
        _count_turn(chat_id, turn.tokens, turn.line)


def _count_turn(chat_id: UUID, tokens: int, line: str) -> None:
    brief = _LOCKED_BRIEF.first(chat_id)
    assert brief is not None  # the turn began with it
    brief.unfolded_turns += bool(tokens)
    brief.unfolded_tokens += tokens
    brief.unfolded_line_tokens += line_cost(line) if tokens else 0
    brief.due = _is_due(brief)
    _COUNTED.save(brief)
    dispatch.enqueue_if_ready(brief)


def count_beforehand(chat_id: UUID, seq: int) -> Tally | None:
    """Count what will be left to fold once message `seq` has changed. Call it before the transaction of the change.

    Pass the result to `messages_changed`. There may be ten thousand turns, and on SQLite a transaction blocks all
    other writers.
    """
    brief = ConversationBrief.objects.filter(pk=chat_id).first()
    if brief is None:
        return None
    after = brief.folded_through_seq
    if seq <= brief.seen_seq:
        older = step_back.revision_to_apply(brief, seq)
        after = older.through_seq if older else 0
    return counters.tally(chat_id, after, besides=seq)


def messages_changed(
    chat_id: UUID, *, from_seq: int, forgets: bool = False, beforehand: Tally | None = None
) -> ConversationBrief:
    """Update memory after messages from `from_seq` on were added, removed or changed, other than by a turn.

    The brief steps back to the newest revision that had not seen them, and a fold in progress cannot publish. The
    remaining turns are recounted and folded again when due. Call it in the transaction of the change; it returns the
    updated brief.

    With `forgets`, the old text must not be kept anywhere, so what later revisions say is deleted, too. `beforehand`
    is the result of `count_beforehand`; without it, or if something else has changed since, everything left is
    counted here.
    """
    brief, _ = ConversationBrief.objects.select_for_update().get_or_create(
        chat_id=chat_id, defaults=new_brief(Chat.objects.only("policy", "options").get(pk=chat_id))
    )
    still = beforehand if beforehand and beforehand.epoch == brief.epoch else None
    delay = _demanded(brief, from_seq) if forgets else 0
    brief.epoch += 1
    embeddings.step_back(chat_id, from_seq)
    if forgets:
        step_back.retract(brief, from_seq)
    elif from_seq <= brief.seen_seq:
        step_back.step_back(brief, from_seq)
    counters.recount(brief, still)
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


def _tokens_of(question: Message, reply: Message) -> int:
    """The tokens that a turn adds to the counters."""
    said = 0 if reply.status == Status.FAILED else reply.token_count
    return sum(count + MESSAGE_OVERHEAD for count in (question.token_count, said) if count)


def _said_before(reply: Message, brief: ConversationBrief) -> int | None:
    """Tokens of the chat before the question of its last turn, to which `reply` is the new answer. None: unknown.

    A failed reply leaves the previous answer in the count. A turn that goes on is not in it.
    """
    said = counters.said_tokens(brief)
    if said is None or reply.leaves_open:
        return said
    if reply.reply_to is None or reply.status == Status.FAILED:
        return None
    return max(0, said - _tokens_of(reply.reply_to, reply))


def _is_due(brief: ConversationBrief) -> bool:
    """Whether the chat is due by its counters. Those of the window are read only if they can make a difference."""
    policy, limits = get_policy(brief.policy), limits_less_pins(brief)
    state, paused = briefs.stored_state(brief), counts_at_pause(brief)
    alone = counters.unfolded(brief)
    small = state_tokens(policy, state) + brief.unfolded_tokens < limits.usual_budget // 2
    if small and not is_due(policy, state, alone, limits, paused):
        return False
    newest = load.newest(brief, turns=policy.window_reach(limits) + 2).turns
    return is_due(policy, state, with_window(alone, policy, state, newest, limits), limits, paused)

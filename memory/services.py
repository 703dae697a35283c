"""What conversations may ask of memory: five verbs, and the two views of a context.

`context_for` before a reply (and `freshen` before that, where it says so), `turn_finished` in the transaction that
finishes it, `messages_changed` when messages came or went otherwise, `policy_changed` and `options_changed` when a chat
is to be remembered another way. Folding is not started from here but by memory's own post-save receiver, which calls
`count_reply`.
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
from memory.briefs import limits_beside_pins, limits_of
from memory.context import load
from memory.context.assemble import Context
from memory.context.prepare import card_request, context_of, log_cuts, prompt_request
from memory.context.prompt_budget import beside
from memory.context.record import RECORDED, record_of
from memory.context.record import card_of as card_of
from memory.context.record import material_of as material_of
from memory.context.record import outline_of as outline_of
from memory.context.record import past_context as past_context
from memory.context.record import said_before as said_before
from memory.context.record import tools_of as tools_of
from memory.context.sources import Source
from memory.counters import Tally as Tally
from memory.explain.chat_trace import Trace, trace
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
    Comparison,
    ContextRecord,
    ContextText,
    ConversationBrief,
    MessageEmbedding,
    Pin,
    RevisionKind,
    SummaryRevision,
)
from memory.models.briefs import new_brief
from memory.pause import waited
from memory.pins import by_rule
from memory.pins.by_rule import exported_pins as exported_pins
from memory.pins.by_rule import message_changed as message_changed
from memory.pins.by_rule import pin_imported as pin_imported
from memory.pins.by_rule import restore_pins as restore_pins
from memory.pins.by_rule import stated_in as stated_in
from memory.policies import get_policy, is_due, state_tokens, with_window
from memory.policies.card.policy import CardRequest
from memory.recall import embedding_job
from memory.recall.embeddings import knows_meanings as knows_meanings
from memory.recall.embeddings import last_question as last_question
from memory.recall.embeddings import near_in_meaning as near_in_meaning
from memory.recall.embeddings import near_now
from memory.recall.query import read_question
from memory.recall.ranking import Near as Near
from memory.revisions import step_back
from memory.revisions.policy_change import is_by_another_policy as is_by_another_policy
from memory.revisions.policy_change import options_changed as options_changed
from memory.revisions.policy_change import policy_changed as policy_changed
from memory.usage import daily
from memory.usage.count_ratio import ratio_of as ratio_of

_BRIEF = Select(lambda chat: ConversationBrief.objects.filter(pk=chat), UUID)
_OWN_BRIEF = Select(
    lambda chat, owner: ConversationBrief.objects.filter(pk=chat, chat__owner=owner), UUID, int
)
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
    """The reply is to carry a block that its reader must not see (`memory.policies.card.stream`)."""


def read_ahead(chat_id: UUID, owner_id: int) -> None:
    """Have read what `context_for` asks for first, of a chat whose next turn begins in this transaction if the chat is
    that user's; of anybody else's nothing."""
    _OWN_BRIEF.ahead_for(_BRIEF, (chat_id,), chat_id, owner_id)
    load.read_ahead(chat_id, owner_id)


def count_ahead(chat_id: UUID) -> None:
    """Have read, and locked, what `count_reply` asks for."""
    _LOCKED_BRIEF.ahead(chat_id)


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
    """What the model is sent for `question`, the user message `before_seq`. Runs in the transaction that begins a turn.

    A turn's own instructions follow the chat's. `again`: the question stood before and may have been counted as a turn;
    what memory knows from an answer to it is left out. Costs the same however long the chat is. `may_wait`: raises
    `StaleMemory` where the chat wants a fold first. `near`: what `memory.recall.embeddings` knows of the question.
    `tools` are the client's; `must_call`: the model has to call one, so none of ours. `open_turn`: what followed the
    question so far, by seq; `attachments`: what came with it.
    """
    # Should somebody else make it at this moment, the turn begins once more (`begin._once`).
    brief = _BRIEF.first(chat.pk) or _NEW_BRIEF.save(ConversationBrief(chat=chat, **new_brief(chat)))
    brief.chat = chat  # at hand, where its instructions count
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
    context = context_of(brief, asked, before_seq, beside(limits, asked), near)
    if open_turn:
        context = replace(context, plan=replace(context.plan, open_turn=tuple(seq for seq, _ in open_turn)))
    log_cuts(chat, context)
    record = {**record_of(chat, brief, context, asked, turn_instructions), "again": again, "said": said}
    if request.form:
        record |= carding.asked(brief, request)
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
    """What the model would be sent now for `question`. Writes nothing; another policy is shown from an empty state."""
    brief = ConversationBrief.objects.filter(chat=chat).first() or ConversationBrief(
        chat=chat, **new_brief(chat)
    )
    if policy and policy != brief.policy:
        brief = ConversationBrief(chat=chat, policy=policy, options=chat.options, pin_tokens=brief.pin_tokens)
    brief.chat = chat  # at hand, where its owner counts
    limits = limits_of(brief)
    limits = limits if budget is None else replace(limits, prompt_budget=budget)
    request = card_request(brief, limits)
    near = near_now(chat.pk, question) if by_meaning and not _is_over_limits(chat) else ()
    asked = prompt_request(chat, question, request, "", sources)
    return context_of(brief, asked, None, beside(limits, asked), near)


def preview_last(chat: Chat) -> Context:
    """What the model would be sent now if the last question were asked again: what staff are shown of a chat's memory.

    Earlier turns are searched by its words alone: for a mere look, no upstream is asked for a vector.
    """
    return preview(chat, last_question(chat.pk), by_meaning=False)


def trace_fact(chat: Chat, text: str, before_seq: int | None = None) -> Trace | None:
    """Where `text` was said in `chat`, which versions and prompts had it, and how a prompt would have it now.

    Prompts before message `before_seq` are looked at, or the newest. No upstream is asked. None: `text` has no words to
    look for.
    """
    if not read_question(text, chat.owner_id).words:
        return None
    return trace(chat, text, preview(chat, text, by_meaning=False), before_seq)


def _is_over_limits(chat: Chat) -> bool:
    """Whether the owner's next call would be refused: then nothing is asked of an upstream for a mere look either."""
    return registry.embeds() and quotas.is_refused(chat.owner_id)


def turn_finished(reply: Message, record: dict[str, Any], card: str = "") -> None:
    """Keep what the model was sent for `reply`, and the `card` that came with it.

    Runs in the transaction that finishes the reply, after it was saved.
    """
    anchor = record["plan"]["anchor_seq"]
    if anchor != record["anchor_before"]:
        _ANCHORED.set(reply.chat_id, anchor)
    said = record.get("said")  # none in the record of a reply that an older version began
    if record["again"] and reply.reply_to is not None:
        # An answer that failed takes nobody's place, but the question may not have been counted.
        changed = reply if reply.status == Status.FAILED else reply.reply_to
        said = _said_before(reply, messages_changed(reply.chat_id, from_seq=changed.seq))
    asked_for_card = carding.was_asked(record) and not reply.leaves_open
    became = carding.take(reply, record, card) if asked_for_card else CardOutcome.NONE
    recorded = {name: record[name] for name in RECORDED if name in record}
    _RECORD.save(ContextRecord(reply=reply, card=became, history_tokens=said, **recorded))
    if reply.reply_to is not None and not reply.leaves_open:
        by_rule.find(reply.reply_to)


def count_reply(reply: Message) -> None:
    """Count the turn that `reply` finishes, and have the chat folded if it is due now. The post-save receiver's work.

    Another answer to a question that was counted already is not one more turn: `turn_finished` counts again.
    """
    question = reply.reply_to
    if question is None or reply.leaves_open:
        return
    if reply.after_tools:
        turn_closed(reply.chat_id, question.seq)
    elif reply.seq == question.seq + 1:
        _count_turn(reply.chat_id, _tokens_of(question, reply), reply.line)


def turn_closed(chat_id: UUID, question_seq: int) -> None:
    """Count the chat's last turn, in which tools were called, from its messages; as `count_reply` does."""
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
    dispatch.hint(brief)


def count_beforehand(chat_id: UUID, seq: int) -> Tally | None:
    """Count what will be left to fold once message `seq` has changed, for `messages_changed`: outside its transaction.

    There may be ten thousand turns, and on SQLite nobody else could write meanwhile.
    """
    brief = ConversationBrief.objects.filter(pk=chat_id).first()
    if brief is None:
        return None
    after = brief.folded_through_seq
    if seq <= brief.seen_seq:
        older = step_back.to_stand_on(brief, seq)
        after = older.through_seq if older else 0
    return counters.tally(chat_id, after, besides=seq)


def messages_changed(
    chat_id: UUID, *, from_seq: int, forgets: bool = False, beforehand: Tally | None = None
) -> ConversationBrief:
    """Messages from `from_seq` on came, went or changed, other than by a turn: what stood on them stands no more.

    The brief steps back to the newest revision that had not seen them; a fold under way cannot publish. What is left
    is counted anew and folded again when due. Runs in the transaction of the change. `forgets`: their former text is to
    be nowhere; so what the later revisions say goes, too. `beforehand` is what `count_beforehand` counted; without it,
    or if something else changed since, all that is left is counted here. Returns the brief as it is then.
    """
    brief, _ = ConversationBrief.objects.select_for_update().get_or_create(
        chat_id=chat_id, defaults=new_brief(Chat.objects.only("policy", "options").get(pk=chat_id))
    )
    still = beforehand if beforehand and beforehand.epoch == brief.epoch else None
    delay = _demanded(brief, from_seq) if forgets else 0
    brief.epoch += 1
    embedding_job.step_back(chat_id, from_seq)
    if forgets:
        step_back.retract(brief, from_seq)
    elif from_seq <= brief.seen_seq:
        step_back.step_back(brief, from_seq)
    counters.recount(brief, still)
    brief.save()
    dispatch.hint(brief)
    if not delay:  # else the sweep has it done
        embedding_job.has_been_said(chat_id)
    return brief


def chat_branched(branch: Chat, origin: UUID) -> None:
    """Give a chat that begins as `origin` does what memory has of the messages it shares.

    Its first version says what the newest one of `origin` says that had seen no other message; without one, nothing.
    What is left is counted, and folded when due. Runs in the transaction that stores the branch.
    """
    brief = ConversationBrief(chat=branch, **new_brief(branch))
    older = step_back.newest_before(origin, branch.last_seq + 1)
    if older is not None and older.policy == branch.policy:
        step_back.stand_on(brief, older)
        brief.version = brief.head = 1
        brief.degraded = older.degraded
    counters.recount(brief)
    brief.save(force_insert=True)
    if brief.head:
        assert older is not None
        SummaryRevision.of(
            brief,
            kind=RevisionKind.BRANCH,
            parent=None,
            tokens_before=0,
            degraded=older.degraded,
            model=older.model,
            prompt_hash=older.prompt_hash,
            retained=older.retained,
            soft_faults=older.soft_faults,
            is_wanting=older.is_wanting,
        ).save(force_insert=True)
    dispatch.hint(brief)
    embedding_job.has_been_said(branch.pk)


def _demanded(brief: ConversationBrief, from_seq: int) -> int:
    """Count an edit that costs a fold again, done or under way. Never refused: the seconds that the fold is to wait."""
    if from_seq > brief.seen_seq and not (brief.due or brief.requested):
        return 0
    delay = quotas.rebuild_delay(brief.chat.owner_id)
    dispatch.demand(brief, delay)
    return delay


def chat_deleted(chat_id: UUID) -> None:
    """Remove all that memory holds of a chat. Runs in the transaction that removes the chat, before its messages go.

    Statements over the chat's rows, however many: Django's own cascade would load every one of them.
    """
    daily.count_chat(chat_id)
    ContextRecord.objects.filter(reply__chat_id=chat_id).delete()
    for model in (
        Pin,
        ContextText,
        SummaryRevision,
        Comparison,
        ConversationBrief,
        MessageEmbedding,
        ChatEmbeddings,
    ):
        model.objects.filter(chat_id=chat_id).delete()


def _tokens_of(question: Message, reply: Message) -> int:
    """What a turn adds to the counters."""
    said = 0 if reply.status == Status.FAILED else reply.token_count
    return sum(count + MESSAGE_OVERHEAD for count in (question.token_count, said) if count)


def _said_before(reply: Message, brief: ConversationBrief) -> int | None:
    """Tokens of the chat before the question of its last turn, to which `reply` is the new answer. None: not known.

    One that failed leaves the answer before it in the count.
    """
    said = counters.said_tokens(brief)
    if said is None or reply.reply_to is None or reply.status == Status.FAILED:
        return None
    return max(0, said - _tokens_of(reply.reply_to, reply))


def _is_due(brief: ConversationBrief) -> bool:
    """Whether the chat is due by its counters. The window's part of them is read only where it can matter."""
    policy, limits = get_policy(brief.policy), limits_beside_pins(brief)
    state, paused = briefs.stored_state(brief), waited(brief)
    alone = counters.unfolded(brief)
    small = state_tokens(policy, state) + brief.unfolded_tokens < limits.usual_budget // 2
    if small and not is_due(policy, state, alone, limits, paused):
        return False
    newest = load.newest(brief, turns=policy.window_reach(limits) + 2).turns
    return is_due(policy, state, with_window(alone, policy, state, newest, limits), limits, paused)

"""Storing the card of a finished reply as a revision, in the transaction that finishes the reply. What a card says:
`memory.policies.card`.

No summarizer is called. The reply's model was shown the previous card and the turns in its prompt, so its card folds
those turns; its own turn is then known to the state while it is still sent verbatim. `memory.policies.card` parses
and renders cards.
"""

import logging

from chatmemory.text.spans import retained
from chatmemory.text.thoughts import visible_text
from conversations.models import Message, Status
from memory.briefs import Memory, lock_brief
from memory.context.build import material_of, open_steps, planned_turns
from memory.context.plan import Plan, Snapshot
from memory.folding import answer_checks, leases
from memory.folding.answer_checks import source_hash, text_of, words_of
from memory.folding.publish import write
from memory.folding.summarizer import Folded
from memory.history.rows import each_turn
from memory.history.turns import Turn, before_window, last_assistant_id
from memory.models import CardOutcome, ContextRecord, RevisionKind
from memory.policies.card import copied_from, read_card, state_after_reply
from memory.policies.protocol import Refusal, State

logger = logging.getLogger(__name__)

TOKEN_CHARS = 20
"""More characters than a token has: an upper bound of how much of a cut source was shown."""


def publish_card(reply: Message, sent: Snapshot, text: str) -> CardOutcome:
    """Make the card `text` of `reply` part of the chat's memory if it is usable, and return the outcome.

    Call it where the reply is finished, after the messages that it replaces have left the memory. A card counts as
    missing if its reply is incomplete, or if anything but a reply changed the memory while the reply was written.
    """
    brief = lock_brief(reply.chat_key)
    if sent.card_epoch is None or reply.status != Status.COMPLETE or not text:
        return CardOutcome.MISSING
    # A regeneration raised the epoch itself, in this transaction.
    if (brief.epoch, brief.policy) != (sent.card_epoch + sent.again, sent.policy):
        return CardOutcome.MISSING
    memory = Memory.of(brief)
    turns = _covered(memory, reply, sent.plan)
    try:
        state, is_cut = _state_after(memory, reply, sent, turns, text)
    except Refusal as refusal:
        extra = {"chat": str(reply.chat_id), "reply": str(reply.pk), "reason": refusal.reason}
        logger.info("memory card refused", extra=extra)
        return CardOutcome.MALFORMED
    # What was left out of the card may have been about the turns that it would fold.
    turns = [] if is_cut else turns
    waited = bool(brief.due or brief.requested)
    folded = Folded(
        policy=brief.policy,
        state=state,
        through_seq=turns[-1].through_seq if turns else brief.folded_through_seq,
        turns=sum(turn.tokens > 0 for turn in turns),
        tokens=sum(turn.tokens for turn in turns),
        last_assistant_id=last_assistant_id(turns),
        source_hash=source_hash(turns),
        model=reply.model,
        prompt_hash=sent.prompt_hash,
        degraded=brief.degraded,
        retained=retained([text_of(turns)], words_of(memory.policy, state)),
    )
    write(brief, RevisionKind.FOLD, folded, reply)
    if (brief.due or brief.requested) and not waited:
        leases.enqueue_if_ready(brief)
    return CardOutcome.KEPT


def _covered(memory: Memory, reply: Message, plan: Plan) -> list[Turn]:
    """The unfolded turns before the window, if the reply was shown every one of them; else none."""
    question = reply.reply_to
    after = memory.brief.folded_through_seq
    not_verbatim = [span.through_seq for span in plan.lines]
    not_verbatim += [plan.merged.through_seq] if plan.merged else []
    if question is None or max(not_verbatim, default=0) > after:
        return []
    shown = {one.from_seq: one for one in plan.verbatim}
    turns: list[Turn] = []
    for turn in each_turn(reply.chat_key, after, question.seq, text=True):
        if turn.tokens and turn.from_seq not in shown:
            return []
        turns.append(turn)
    # The reply to a clipped turn must have had its own card kept: the model of that reply had the whole turn.
    clipped = {turn.last_assistant_id for turn in turns if turn.tokens and shown[turn.from_seq].clipped}
    kept = ContextRecord.objects.filter(owner_id=reply.owner_id, pk__in=clipped - {None}, card=CardOutcome.KEPT)
    if clipped and kept.count() < len(clipped):
        return []
    return turns[: before_window(turns, memory.window_reach - 1)]


def _state_after(memory: Memory, reply: Message, sent: Snapshot, turns: list[Turn], text: str) -> tuple[State, bool]:
    """Return the state after the card `text`, and whether anything was left out of it. Raises `Refusal`.

    An order or a link that comes from a source refuses the whole card, as the rest of it is not trusted either. Text
    that comes from instructions, or is copied from a source, is left out: it was only given to the model.
    """
    before, limits, fields = memory.state, memory.limits, read_card(text)
    conversation = _conversation(reply, sent.plan, turns)
    instructions, sources = _given(memory, sent)
    answer_checks.check(before, state_after_reply(before, fields, limits), [*conversation, *instructions])
    known = [*answer_checks.texts_of(before)]
    texts = set(answer_checks.strings_in(list(fields.values())))
    copied = copied_from(texts.difference(known), [*instructions, *sources], [*known, *conversation])
    after = state_after_reply(before, fields, limits, copied)
    if copied:
        answer_checks.check(before, after, conversation)
    return after, bool(copied)


def _conversation(reply: Message, plan: Plan, turns: list[Turn]) -> list[str]:
    """Texts of the turn of `reply`, of the turns that its card folds, and of those shown to its model."""
    question = reply.reply_to.content if reply.reply_to else ""
    tools = [step.content for step in open_steps(reply.chat_key, plan.open_turn)]
    shown = planned_turns(reply.chat_key, plan)
    lines = [turn.line for turn in shown]
    return [question, *tools, visible_text(reply.content), *answer_checks.turn_texts([*turns, *shown]), *lines]


def _given(memory: Memory, sent: Snapshot) -> tuple[list[str], list[str]]:
    """Texts given only to the model: instructions, and titles and texts of sources, cut to about the part shown."""
    own, sources = material_of(memory.brief.chat_key, sent)
    instructions = (memory.brief.chat.instructions, own, memory.limits.focus)
    texts: list[str] = []
    for source, clip in zip(sources, sent.plan.sources, strict=False):
        texts += [] if clip == 0 else [source.title, source.text[: clip and clip * TOKEN_CHARS]]
    return [text for text in instructions if text], texts

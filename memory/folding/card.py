"""Publishing the card of a finished reply as a revision, in the transaction that finishes the reply.

No summarizer is called. The reply's model was shown the previous card and the turns in its prompt, so its card folds
those turns; its own turn is then known to the state while it is still sent verbatim. `memory.policies.card` parses
and renders cards.
"""

import json
import logging
from collections.abc import Collection
from functools import cached_property

from django.utils import timezone

from conversations.models import Message, Status
from memory.briefs import Memory, lock_brief
from memory.context.build import open_steps, planned_turns
from memory.context.plan import Plan, Snapshot
from memory.folding import answer_checks, work
from memory.folding.answer_checks import held, source_hash, text_of, words_of
from memory.folding.publish import write
from memory.folding.summarizer import Folded
from memory.history.rows import each_turn
from memory.history.turns import Turn, before_window, last_assistant_id
from memory.models import CardOutcome, ContextRecord, ContextText, RevisionKind
from memory.policies.card import state_after_reply
from memory.policies.card_in_reply import unsaid_in
from memory.policies.protocol import Refusal, State

logger = logging.getLogger(__name__)

CONTENT_REFUSALS = ("new_url", "new_instruction", "unsaid")
"""Reasons to refuse a card although it is well-formed."""
TOKEN_CHARS = 20
"""More characters than a token has: an upper bound of how much of a cut source was shown."""


def publish_card(reply: Message, sent: Snapshot, text: str) -> CardOutcome:
    """Make the card `text` of `reply` part of the chat's memory if it is usable, and return the outcome.

    Call it where the reply is finished, after the messages that it replaces have left the memory. A card counts as
    missing if its reply is incomplete, or if anything but a reply changed the memory while the reply was written.
    """
    became = _publish(reply, sent, text)
    if became is not CardOutcome.KEPT:
        extra = {"chat": str(reply.chat_id), "reply": str(reply.pk), "card": became.value}
        logger.info("reply without a usable card", extra=extra)
    return became


def _publish(reply: Message, sent: Snapshot, text: str) -> CardOutcome:
    brief = lock_brief(reply.chat_id)
    if sent.card_epoch is None or reply.status != Status.COMPLETE or not text:
        return CardOutcome.MISSING
    # A regeneration raised the epoch itself, in this transaction.
    if (brief.epoch, brief.policy) != (sent.card_epoch + sent.again, sent.policy):
        return CardOutcome.MISSING
    memory = Memory.of(brief)
    turns = _covered(memory, reply, sent.plan)
    try:
        spoken = _Spoken(memory, reply, sent, turns)
        state = _state_after(memory, spoken, text)
    except Refusal as refusal:
        # For staff, unless a failure of the summarizer is recorded already.
        if refusal.reason in CONTENT_REFUSALS and brief.last_error is None:
            message = f"A reply's memory card was not taken. {refusal}"
            at = timezone.now().isoformat()
            brief.last_error = {"code": refusal.reason, "message": message, "at": at, "attempt": 0}
            brief.save(update_fields=["last_error"])
        return CardOutcome.MALFORMED
    # What was left out of the card may have been about the turns that it would fold.
    turns = [] if spoken.has_unsaid else turns
    waited = bool(brief.due or brief.requested)
    if (brief.last_error or {}).get("attempt") == 0:
        brief.last_error = None
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
        retained=held([text_of(turns)], words_of(memory.policy, state)).retained,
    )
    write(brief, RevisionKind.FOLD, folded, reply)
    if (brief.due or brief.requested) and not waited:
        work.enqueue_if_ready(brief)
    return CardOutcome.KEPT


def _covered(memory: Memory, reply: Message, plan: Plan) -> list[Turn]:
    """The unfolded turns before the window, if the reply was shown every one of them; else none."""
    question = reply.reply_to
    after = memory.brief.folded_through_seq
    untold = [span.through_seq for span in plan.lines]
    untold += [plan.merged.through_seq] if plan.merged else []
    if question is None or max(untold, default=0) > after:
        return []
    shown = {one.from_seq: one for one in plan.verbatim}
    turns: list[Turn] = []
    for turn in each_turn(reply.chat_id, after, question.seq, text=True):
        if turn.tokens and turn.from_seq not in shown:
            return []
        turns.append(turn)
    # The reply to a clipped turn must have had its own card kept: the model of that reply had the whole turn.
    clipped = {turn.last_assistant_id for turn in turns if turn.tokens and shown[turn.from_seq].clipped}
    kept = ContextRecord.objects.filter(pk__in=clipped - {None}, card=CardOutcome.KEPT)
    if clipped and kept.count() < len(clipped):
        return []
    return turns[: before_window(turns, memory.window_reach - 1)]


class _Spoken:
    """What may be remembered of a reply's turn: what somebody said, and not what was only given to the model."""

    def __init__(self, memory: Memory, reply: Message, sent: Snapshot, turns: list[Turn]):
        self._memory, self._reply, self._sent = memory, reply, sent
        question = reply.reply_to.content if reply.reply_to else ""
        tools = [step.content for step in open_steps(reply.chat_id, sent.plan.open_turn)]
        self.near = [question, *tools, reply.content, *answer_checks.said_in(turns)]
        """The texts of the turn itself and of those that its card folds."""
        self.has_unsaid = False
        """Something was left out of the card, because nobody said it."""

    @cached_property
    def said(self) -> list[str]:
        """The texts in `near`, and the turns that the model was shown besides, verbatim and as lines."""
        turns = planned_turns(self._reply.chat_id, self._sent.plan)
        return [*self.near, *answer_checks.said_in(turns), *(turn.line for turn in turns)]

    @cached_property
    def instructions(self) -> list[str]:
        """The instructions of the chat and of the turn, and what memory is to attend to."""
        own = self._texts.get(self._sent.turn_instructions_hash, "")
        focus = self._memory.limits.focus
        return [text for text in (self._memory.brief.chat.instructions, own, focus) if text]

    @cached_property
    def sources(self) -> list[str]:
        """Title and text of the sources that were shown, each cut to about what was shown of it."""
        given = json.loads(self._texts.get(self._sent.sources_hash, "[]"))
        found: list[str] = []
        for (title, text), clip in zip(given, self._sent.plan.sources, strict=False):
            found += [] if clip == 0 else [title, text[: clip and clip * TOKEN_CHARS]]
        return found

    def unsaid(self, texts: Collection[str]) -> Collection[str]:
        """The texts of a card that come from instructions or sources, and that nobody said."""
        material = [*self.instructions, *self.sources]
        if not material:
            return ()
        before = [*answer_checks.texts_of(self._memory.state)]
        new = set(texts).difference(before)
        found = unsaid_in(new, material, [*before, *self.near])
        found = unsaid_in(found, material, [*before, *self.said]) if found else found
        self.has_unsaid = self.has_unsaid or bool(found)
        return found

    @cached_property
    def _texts(self) -> dict[str, str]:
        hashes = {self._sent.turn_instructions_hash, self._sent.sources_hash} - {""}
        rows = ContextText.objects.filter(chat_id=self._reply.chat_id, sha256__in=hashes)
        return dict(rows.values_list("sha256", "text"))


def _state_after(memory: Memory, spoken: _Spoken, text: str) -> State:
    """Return the state after the card `text`. Raises `Refusal`.

    An order or a link that comes from a source refuses the whole card, as the rest of it is not trusted either. Text
    that comes from instructions, or is copied from a source, is left out of the card.
    """
    before, limits = memory.state, memory.limits
    whole = state_after_reply(before, text, limits)
    try:
        answer_checks.check(before, whole, spoken.near)
    except Refusal:
        # Rare enough to afford a few more queries.
        answer_checks.check(before, whole, [*spoken.said, *spoken.instructions])
    after = state_after_reply(before, text, limits, spoken.unsaid)
    if spoken.has_unsaid:
        answer_checks.check(before, after, spoken.said)
    return after

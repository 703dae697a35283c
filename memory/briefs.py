"""A chat's memory as one value: its brief with the policy, state and limits in use; whether it is due by them.

The limits are those of the settings, as modified by the chat's options. An option that is no longer valid, because
bounds or policies changed since, is ignored, so that it does not block the chat.

Whether a chat is due is decided here (`Memory.is_due`), from the counts of its unfolded turns. Only `due` is stored,
because workers search for it. Deciding it reads the newest turns and no others: `MAX_TURNS` of them are always due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chatmemory.database.compiled import Select
from chatmemory.database.owned import ChatKey
from chatmemory.errors import NotFound
from chatmemory.text.tokens import count_tokens
from conversations.models import Chat, Message
from memory import conf
from memory.history.rows import counts_between, each_turn, newest_turns, pending_seq
from memory.history.turns import StoredMessage, Turn, to_turns
from memory.limits import MemoryLimits
from memory.models import ConversationBrief, SummaryRevision, new_brief
from memory.pins.section import BUDGET_DIVISOR, CARD_TOKENS
from memory.policies import POLICIES, protocol
from memory.policies.protocol import Counts, FoldProgress, Policy, State
from memory.policies.state_parts import EditField

_LOCKED_CHAT = Select(lambda chat, owner: Chat.objects.select_for_update(no_key=True).filter(pk=chat, owner_id=owner))
LOCKED_BRIEF = Select(lambda *key: ConversationBrief.objects.select_for_update().filter(**ChatKey(*key).columns))


@dataclass(frozen=True, slots=True)
class Memory:
    """A brief, and the values derived from it once. After a change of the brief, make a new one."""

    brief: ConversationBrief
    policy: Policy
    state: State
    limits: MemoryLimits

    @classmethod
    def of(cls, brief: ConversationBrief) -> Memory:
        """The memory in use. The brief's chat is read only if its instructions count."""
        policy = POLICIES[brief.policy]
        limits = limits_for(policy, brief.options, lambda: brief.chat.instructions)
        return cls(brief, policy, State.from_json(brief.global_summary, brief.state), limits)

    @classmethod
    def anew(cls, brief: ConversationBrief, state: State | None = None) -> Memory:
        """A memory by the policy and options that are set on the chat: the one that a rebuild makes."""
        policy = POLICIES[brief.chat.policy]
        limits = limits_for(policy, brief.chat.options, lambda: brief.chat.instructions)
        return cls(brief, policy, state or State(), limits)

    @property
    def room_for_pins(self) -> int:
        """The most tokens that pins may have."""
        tenth = self.limits.prompt_budget // BUDGET_DIVISOR if self.limits.enabled else 0
        return min(tenth, CARD_TOKENS) if self.policy.asks_for_card else tenth

    @property
    def limits_less_pins(self) -> MemoryLimits:
        """The limits, less the part of the budget that pins take."""
        pins = min(self.brief.pin_tokens, self.room_for_pins)
        return self.with_budget(self.limits.prompt_budget - pins).limits

    @property
    def window_reach(self) -> int:
        """The most turns that the window can hold. A window measured in tokens may hold fewer."""
        return self.policy.window_reach(self.limits)

    def with_budget(self, tokens: int) -> Memory:
        """The same with another budget for the prompt."""
        return replace(self, limits=replace(self.limits, prompt_budget=tokens))

    def window(self, newest: Sequence[Turn]) -> int:
        """How many of the newest unfolded turns stay verbatim."""
        return protocol.window_of(self.policy, self.state, newest, self.limits)

    def is_due(self, newest: Sequence[Turn]) -> bool:
        """Whether the chat is to be folded, by its newest finished turns that are not folded, oldest first."""
        limits, is_paused = self.limits_less_pins, self.brief.paused_at is not None
        if is_paused and limits.recalls:  # then what was waiting before the pause can be recalled
            newest = [turn for turn in newest if turn.through_seq > (self.brief.paused_seq or 0)]
        counts = protocol.counts_of(self.policy, self.state, newest, limits)
        return protocol.is_due(self.policy, self.state, counts, limits, paused=is_paused)

    def last_seq_before_window(self, newest: Sequence[Turn], after_seq: int) -> int:
        """The seq of the last message beyond the window; `after_seq` if there is none after it."""
        folds = self.count_before_window(newest)
        return newest[folds - 1].through_seq if folds else after_seq

    def last_seq_to_fold(self, newest: Sequence[Turn], after_seq: int, batch_tokens: int) -> int:
        """The same for a fold that is due: the policy may leave some of the turns beyond the window."""
        folds = protocol.count_to_fold(self.policy, self.state, newest, self.limits_less_pins, batch_tokens)
        return newest[folds - 1].through_seq if folds else after_seq

    def count_before_window(self, newest: Sequence[Turn]) -> int:
        """How many of the oldest of `newest` are beyond the window."""
        return protocol.count_before_window(self.policy, self.state, newest, self.limits)


@dataclass(frozen=True, slots=True)
class MemoryAtStart:
    """A memory and all its unfolded turns, without texts, as they were when a turn began."""

    memory: Memory
    turns: tuple[Turn, ...]

    def is_due_after(self, question: Message, reply: Message) -> bool:
        """Whether there is work once the turn of these two messages is finished."""
        if self.memory.brief.due or self.memory.brief.requested:
            return True
        (turn,) = to_turns([StoredMessage.of(question), StoredMessage.of(reply)])
        return self.memory.is_due([*self.turns, turn])


def limits_for(policy: Policy, options: Mapping[str, Any], instructions: Callable[[], str]) -> MemoryLimits:
    """The limits of the settings, modified by `options`; the instructions are read and counted only if they count."""
    limits = policy.adapted(protocol.with_options(conf.limits(), policy, options))
    counts = policy.counts_instructions or limits.budget_for == "prompt"
    return replace(limits, instructions_tokens=count_tokens(instructions()) if counts else 0)


# Briefs and their unfolded turns


def brief_of(chat: Chat) -> ConversationBrief:
    """The brief of `chat`; one that is not stored if it has none yet."""
    stored = ConversationBrief.objects.filter(chat=chat).first()
    brief = stored or ConversationBrief(**new_brief(chat))
    brief.chat = chat
    return brief


def lock_brief(key: ChatKey) -> ConversationBrief:
    """The brief of a chat, locked after its chat: the order of locks used everywhere. Created if there is none yet.

    Raises `NotFound` if the chat is gone.
    """
    chat = _LOCKED_CHAT.first(*key)
    if chat is None:
        raise NotFound("This chat no longer exists.")
    brief = LOCKED_BRIEF.first(*key) or ConversationBrief.objects.create(chat=chat, **new_brief(chat))
    brief.chat = chat
    return brief


def decide_due(brief: ConversationBrief) -> list[Turn]:
    """Set `due` of a locked brief. Saves nothing. Returns the turns by which it was decided."""
    newest = unfolded_turns(brief)
    brief.due = Memory.of(brief).is_due(newest)
    return newest


def unfolded_turns(brief: ConversationBrief) -> list[Turn]:
    """The newest finished turns that are not folded, oldest first, without texts: `MAX_TURNS` at most."""
    return newest_turns(brief.chat_key, brief.folded_through_seq, before_seq=pending_seq(brief.chat_key))


def unfolded(brief: ConversationBrief) -> Counts:
    """Counts of all unfolded turns, without those of the window. For pages: reads a row for every message."""
    pending = pending_seq(brief.chat_key)
    return protocol.totals_of(each_turn(brief.chat_key, brief.folded_through_seq, pending, text=False))


def history_tokens(brief: ConversationBrief | None, unfolded_tokens: int | None = None) -> int | None:
    """Tokens of all finished turns of the chat, before folding; None if the folded ones were never counted.

    `unfolded_tokens`: those of the turns that are not folded, if they are known.
    """
    if brief is None:
        return 0
    if brief.folded_through_seq and brief.folded_tokens is None:
        return None
    if unfolded_tokens is None:
        pending = pending_seq(brief.chat_key)
        _, unfolded_tokens = counts_between(brief.chat_key, brief.folded_through_seq, pending)
    return unfolded_tokens + (brief.folded_tokens or 0)


def fold_progress(brief: ConversationBrief, counts: Counts) -> FoldProgress | None:
    """How far a chat with these unfolded turns is from its next fold. None if no number triggers one, or if paused."""
    if brief.paused_at or brief.policy not in POLICIES:
        return None
    memory = Memory.of(brief)
    return memory.policy.measure(memory.state, counts, memory.limits) if memory.limits.enabled else None


# Texts for people and models


def text_of(row: ConversationBrief | SummaryRevision) -> str:
    """The text that the model reads: the sections of the state; only the summary if the policy no longer exists."""
    state = State.from_json(row.global_summary, row.state)
    if state.data and row.policy in POLICIES:
        return "\n\n".join(section.text for section in POLICIES[row.policy].render(state))
    return row.global_summary


def readable_parts(row: ConversationBrief | SummaryRevision) -> list[EditField]:
    """The parts shown to people: those of the state, or the summary if it is plain or its policy no longer exists."""
    state = State.from_json(row.global_summary, row.state)
    if state.data and row.policy in POLICIES:
        fields = POLICIES[row.policy].edit_fields(state, MemoryLimits())
    else:
        fields = [EditField("summary", "Summary", row.global_summary)]
    return [field for field in fields if field.text.strip()]

"""A turn, as memory sees it: whether it waits for a fold, its prompt, a smaller one if the model's server refuses that,
and what follows the reply.

`prompt_for` is called where a turn begins (with `may_wait`, it may raise `StaleMemory`: call
`memory.folding.request.freshen` and repeat); `turn_finished` in the transaction that finishes the reply. Replies that
are stored any other way are counted by the post-save receiver in `memory.signals`.
`memory.changes` has what happens to a chat other than by turns.
"""

from dataclasses import dataclass, replace

from chatmemory.database.compiled import Write
from chatmemory.database.owned import ChatKey
from chatmemory.llm.protocol import Prompt
from chatmemory.runtime import tracing
from conversations.models import Chat, Message, Status
from memory.across import scope_index
from memory.briefs import LOCKED_BRIEF, Memory, MemoryAtStart, history_tokens
from memory.changes import messages_changed
from memory.context import build
from memory.context.plan import Snapshot
from memory.context.prompt import PromptRequest
from memory.folding import leases
from memory.folding.card import publish_card
from memory.history.rows import newest_turns
from memory.models import CardOutcome, ContextRecord, ConversationBrief, new_brief
from memory.pins import pins
from memory.recall import embeddings
from memory.revisions import step_back

_SET_ANCHOR = Write(
    lambda chat, owner, seq: (
        ConversationBrief.objects.filter(chat=chat, owner_id=owner),
        {"anchor_seq": seq},
    )
)


class StaleMemory(Exception):
    """A signal, not an error: the chat is due, and its reply may wait `seconds` for the fold. Nothing is stored yet."""

    def __init__(self, chat: ChatKey, seconds: float) -> None:
        super().__init__("the memory of a chat is to be freshened first")
        self.chat, self.seconds = chat, seconds


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A prompt to send, and the snapshot to store of it."""

    prompt: Prompt
    snapshot: Snapshot
    memory_at_start: MemoryAtStart | None
    """None if there are too many unfolded turns to know them all."""


def prompt_for(
    chat: Chat, request: PromptRequest, before_seq: int, *, again: bool = False, may_wait: bool = False
) -> PreparedPrompt:
    """Prepare the prompt for the question of `request`, which is the user message `before_seq`.

    Call it in the transaction that begins a turn. The cost does not depend on the chat's length.

    - `again`: the question is answered again and may have been counted as a turn. What memory knows from an answer to
      it is left out.
    - `may_wait`: raise `StaleMemory` if the chat should be folded first.
    """
    # If another process creates it at the same moment, the turn is begun once more (`begin._in_chat`).
    brief = getattr(chat, "brief", None) or ConversationBrief.objects.create(chat=chat, **new_brief(chat))
    memory = Memory.of(brief)
    if may_wait:
        require_fresh(memory)
    if again and before_seq <= brief.seen_seq:
        step_back.step_back(brief, before_seq)
        memory = Memory.of(brief)
    request = build.request_of(memory, request)
    unfolded = build.load_unfolded(memory, before_seq)
    context = build.context_of(memory, unfolded, request)
    snapshot = build.snapshot_of(
        memory,
        context,
        request,
        again=again,
        history_tokens=history_tokens(brief, unfolded.tokens),
        card_epoch=brief.epoch if request.card_instructions else None,
    )
    tracing.describe(dict.fromkeys(tracing.CHAT_ID, str(chat.pk)))
    tracing.describe({"chatmemory.policy": snapshot.policy, "chatmemory.revision": snapshot.revision})
    if unfolded.older_turns:
        return PreparedPrompt(context.prompt, snapshot, None)
    turns = tuple(turn.without_text for turn in unfolded.turns)  # it is kept for as long as the reply takes
    return PreparedPrompt(context.prompt, snapshot, MemoryAtStart(memory, turns))


def smaller_prompt(chat: Chat, question: Message, sent: Snapshot) -> PreparedPrompt:
    """Prepare a prompt in place of `sent`, which the model's server found too long.

    Memory, sources and the open turn have half their budgets, memory at most three quarters of what was sent of it, and
    nothing is recalled.
    """
    memory = Memory.of(chat.brief)
    limits = replace(
        memory.limits,
        prompt_budget=min(memory.limits.prompt_budget // 2, sent.tokens * 3 // 4),
        sources_budget=memory.limits.sources_budget // 2,
        recall="off",
    )
    memory = replace(memory, limits=limits)
    request = build.sent_request(question, sent, "")
    request = replace(
        request,
        turn_instructions=build.material_of(chat.key, sent)[0],
        open_seqs=sent.plan.open_turn,
        open_clips=(),
        disarms=sent.plan.disarms,
    )
    request = build.request_of(memory, request)
    context = build.context_of(memory, build.load_unfolded(memory, question.seq), request)
    context = replace(context, plan=replace(context.plan, refused_tokens=sent.prompt_tokens))
    same = {name: getattr(sent, name) for name in ("anchor_before", "again", "history_tokens", "card_epoch")}
    snapshot = build.snapshot_of(memory, context, request, **same)
    return PreparedPrompt(context.prompt, snapshot, None)


def require_fresh(memory: Memory) -> None:
    """Raise `StaleMemory` if the chat is due and its policy lets a reply wait."""
    seconds = memory.policy.lazy_seconds(memory.limits)
    if memory.brief.due and seconds and memory.limits.enabled:
        raise StaleMemory(memory.brief.chat_key, seconds)


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A reply that has just been stored, and what was known when its turn began."""

    reply: Message
    sent: Snapshot
    """The prompt that the model was sent for it."""
    card: str
    """The memory card that came with it."""
    is_open: bool
    """Whether the turn continues, because the reply calls tools or does not answer their outputs."""
    memory_at_start: MemoryAtStart | None
    """None in another process than that which began the turn."""


def turn_finished(turn: FinishedTurn) -> None:
    """Store what the model was sent, and have the chat folded if the turn makes it due.

    Call it in the transaction that finishes the reply, after it was saved.
    """
    reply, question, sent = turn.reply, turn.reply.reply_to, turn.sent
    if sent.plan.anchor_seq != sent.anchor_before:
        _SET_ANCHOR.run(*reply.chat_key, sent.plan.anchor_seq)
    if sent.again and question is not None:
        # An answer that replaces none changes nothing, but the question may not have been counted.
        changed = reply if reply.status == Status.FAILED or reply.superseded_by_id else question
        messages_changed(reply.chat_key, from_seq=changed.seq)
    brings_card = sent.card_epoch is not None and not turn.is_open
    became = publish_card(reply, sent, turn.card) if brings_card else CardOutcome.NONE
    ContextRecord.objects.create(reply=reply, card=became, **sent.columns())
    embeddings.enqueue_chat(reply.chat_key)
    if question is None or turn.is_open:
        return
    pins.pin_statements(question)
    is_all = reply.seq == question.seq + 1
    at_start = turn.memory_at_start if is_all else None
    # Another answer to a question that was answered before adds no turn: `messages_changed` has decided.
    adds_turn = is_all or (sent.plan.open_turn and not sent.again)
    if adds_turn and (at_start is None or at_start.is_due_after(question, reply)):
        turn_closed(reply.chat_key)
    if sent.plan.elsewhere_recall is not None:  # the chat shares what is said
        scope_index.add_turn(reply.chat_key, question.seq, reply.seq)  # last, as it locks what other chats wait for


def turn_closed(chat: ChatKey) -> ConversationBrief:
    """Have the chat folded if it is due by now: its last turn is finished, and no other has begun. Return its brief."""
    brief = LOCKED_BRIEF.first(*chat)
    assert brief is not None  # the turn began with it
    if not brief.due:  # one turn more does not change that
        brief.due = Memory.of(brief).is_due(newest_turns(chat, brief.folded_through_seq))
        brief.save(update_fields=["due"])
    leases.enqueue_if_ready(brief)
    return brief

"""What must hold for every chat at any moment when no fold is in progress, whatever was done to the product before.

Reads the tables and the pure modules; knows nothing of how a test got here. `violations` returns all that it finds, as
sentences; `check_all` fails on any.
"""

import copy
from collections.abc import Iterator
from decimal import Decimal

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now

from chatmemory.text.markers import PINS_HEADING
from chatmemory.text.tokens import count_tokens, heading_cost
from conversations.accounts.models import Allowance, PassingCall, Reserved
from conversations.models import ActiveReply, Chat, Message, Role, Status
from memory.briefs import Memory, decide_due
from memory.context.build import past_context, preview
from memory.context.prompt import Context
from memory.folding.answer_checks import source_hash
from memory.history import rows as loading
from memory.history.turns import Turn
from memory.models import MAX_PINS, ContextRecord, ConversationBrief, Pin, RevisionKind, SummaryRevision
from memory.pins.pins import holding_pins
from memory.pins.section import pin_cost
from memory.policies import POLICIES
from memory.usage import daily


def check_all(users: list[User] | None = None) -> None:
    """Fail if anything is wrong with any chat or any bill, of these users or of all."""
    assert ActiveReply.objects.filter(lease_expires_at__lt=Now()).count() == 0, "a reply outlived its lease"
    users = list(User.objects.all()) if users is None else users
    chats = list(Chat.objects.filter(owner__in=users))
    owners = {chat.owner_id for chat in chats}
    found = [f"chat {chat.pk}: {text}" for chat in chats for text in violations(chat)]
    for user in users:
        spent = bill(user) if user.pk in owners else ()
        found += [f"user {user.pk}: {text}" for text in (*spent, *allowance(user))]
    assert not found, "\n".join(found)


def violations(chat: Chat) -> list[str]:
    """Return everything that is wrong with one chat."""
    brief = ConversationBrief.objects.filter(chat=chat).first()
    turns = list(loading.each_turn(chat.key, 0, loading.pending_seq(chat.key), text=True))
    found = [*_messages(chat), *_contexts(chat)]
    if brief is not None:
        revisions = list(SummaryRevision.objects.filter(chat=chat))
        found += [*_revisions(brief, revisions), *_sources(revisions, turns), *_brief(brief)]
        found += _coverage(chat, brief, turns)
        found += _pins(brief)
    return found


def _messages(chat: Chat) -> Iterator[str]:
    names = ("pk", "seq", "role", "reply_to_id", "reply_to__seq", "context_record__pk")
    rows = list(Message.objects.filter(chat=chat).order_by("seq").values(*names))
    if [row["seq"] for row in rows] != list(range(1, chat.last_seq + 1)):
        yield "seq has holes, or last_seq is not the last"
    own = [row["reply_to__seq"] for row in rows if row["context_record__pk"] is not None]
    first = min((seq for seq in own if seq is not None), default=chat.last_seq + 1)
    answered = {row["reply_to_id"] for row in rows}
    pending = ActiveReply.objects.filter(chat=chat).values_list("user_message_id", flat=True).first()
    for row in rows:
        waits = row["pk"] == pending or row["seq"] == chat.last_seq
        if row["role"] == Role.USER and row["seq"] >= first and row["pk"] not in answered and not waits:
            yield f"nobody answered message {row['seq']}"


def _contexts(chat: Chat) -> Iterator[str]:
    """Check each reply's record: its prompt can be rebuilt exactly, and its memory was within its budget."""
    replies = Message.objects.filter(chat=chat, role=Role.ASSISTANT, context_record__isnull=False)
    for reply in replies.select_related("reply_to", "context_record").order_by("seq"):
        past = past_context(reply)
        if past is None:
            yield f"the context of message {reply.seq} cannot be rebuilt"
            continue
        context, sent = past
        found = list(_context(reply, context, sent.prompt_hash))
        if found and not (_changed_since(reply) or _unpinned_since(context)):
            yield from found


def _context(reply: Message, context: Context, recorded: str) -> Iterator[str]:
    if context.prompt_hash != recorded:
        yield f"the prompt of message {reply.seq} cannot be rebuilt to the letter"
    tokens = {_recount(context), context.tokens, reply.context_record.tokens}
    if len(tokens) > 1 or context.tokens > context.plan.budget:
        yield f"memory of message {reply.seq}: {context.tokens} tokens of {context.plan.budget}"
    kinds = [section.kind for section in context.sections]
    if len(set(kinds)) != len(kinds):
        yield f"the context of message {reply.seq} has a section twice"


def _changed_since(reply: Message) -> bool:
    """Whether a text that may be in its prompt was edited or forgotten after it was sent."""
    said = Message.objects.filter(chat=reply.chat_id, seq__lt=reply.seq, edited_at__gte=reply.created_at)
    return said.exists()


def _unpinned_since(context: Context) -> bool:
    """Whether a pin that was in its prompt has been deleted since."""
    ids = {pin.id for pin in context.plan.pins}
    return Pin.objects.filter(pk__in=ids).count() < len(ids)


def _pins(brief: ConversationBrief) -> Iterator[str]:
    """Check that the token count of pins is exact, that no pin is of a forgotten message, and that they are few."""
    held = holding_pins(brief.chat_key)
    tokens = heading_cost(PINS_HEADING) + sum(pin_cost(pin.text) for pin in held) if held else 0
    if brief.pin_tokens != tokens:
        yield f"{brief.pin_tokens} tokens of pins are known, but there are {tokens}"
    rows = list(Pin.objects.filter(chat=brief.chat_id, ended_at__isnull=True).select_related("message"))
    for pin in rows:
        if pin.message is not None and pin.message.status == Status.DELETED:
            yield f"pin {pin.pk} is of message {pin.message.seq}, which was forgotten"
    if len(rows) > 2 * MAX_PINS:
        yield f"{len(rows)} pins hold"


def _revisions(brief: ConversationBrief, revisions: list[SummaryRevision]) -> Iterator[str]:
    """Check that versions have no gaps, and that the brief agrees with the revision in use."""
    by_version = {one.version: one for one in revisions}
    if sorted(by_version) != list(range(1, brief.version + 1)):
        yield f"versions {sorted(by_version)} of {brief.version}"
    head = by_version.get(brief.head)
    expected = head.through_seq if head else 0
    if brief.folded_through_seq != expected:
        yield f"folded through {brief.folded_through_seq}, but the revision in use ends at {expected}"
    if brief.seen_seq != (head.seen_seq if head else 0):
        yield f"seen through {brief.seen_seq}, but the revision in use saw something else"
    if brief.global_summary != (head.global_summary if head else ""):
        yield "the summary is not that of the revision in use"
    # A step back repeats what an older revision says; how much that one kept is only in the brief.
    is_known = head is None or head.kind != RevisionKind.RETRACT
    if is_known and brief.kept_percent != (head.kept_percent if head else None):
        yield f"{brief.kept_percent} % kept, but the revision in use kept something else"
    yield from (
        f"revision {one.version} is marked wrongly"
        for one in by_version.values()
        if one.is_wanting != bool(one.soft_faults)
    )
    yield from _lineage(head, by_version)


def _lineage(head: SummaryRevision | None, by_version: dict[int, SummaryRevision]) -> Iterator[str]:
    """Check that the spans behind `head` join up from the first message, and that no revision there was emptied.

    A cleared memory has no ancestors: its parent's text may be gone.
    """
    while head is not None:
        parent = by_version.get(head.parent or 0)
        starts_over = head.kind == RevisionKind.REBUILD
        after = 0 if starts_over or parent is None else parent.through_seq
        folds_nothing = head.through_seq < head.from_seq
        is_card = head.through_seq == head.from_seq - 1 and head.seen_seq > head.through_seq
        is_empty = head.kind == RevisionKind.REBUILD and not head.turns  # all turns are in the window
        may_fold_nothing = (
            is_card
            or is_empty
            or head.kind in (RevisionKind.RETRACT, RevisionKind.RESTORE, RevisionKind.MANUAL, RevisionKind.BRANCH)
        )
        if head.from_seq != after + 1 or (folds_nothing and not may_fold_nothing):
            yield f"revision {head.version} spans {head.from_seq}–{head.through_seq} after {after}"
        if head.forgotten_at is not None:
            yield f"the memory in use stems from revision {head.version}, whose text was taken out"
        if parent is not None and parent.version >= head.version:
            yield f"revision {head.version} follows {parent.version}"
        if head.kind == RevisionKind.RESTORE and not _says_the_same(head, parent):
            yield f"revision {head.version} restores revision {head.parent}, but is not what that was"
        if parent is not None and head.kind == RevisionKind.FOLD and head.seen_seq < parent.seen_seq:
            yield f"revision {head.version} forgets what revision {parent.version} had seen"
        is_cleared = head.kind == RevisionKind.MANUAL and not head.tokens_after
        head = None if starts_over or is_cleared else parent


def _says_the_same(restored: SummaryRevision, parent: SummaryRevision | None) -> bool:
    """Whether a restored revision has its parent's text, policy and coverage."""
    same = ("global_summary", "state", "policy", "through_seq", "seen_seq", "tokens_after", "degraded")
    return parent is not None and all(getattr(restored, name) == getattr(parent, name) for name in same)


def _sources(revisions: list[SummaryRevision], turns: list[Turn]) -> Iterator[str]:
    """Check that each revision was made from exactly the messages of its span, as they are now."""
    for revision in revisions:
        if revision.forgotten_at is not None:
            if revision.global_summary or revision.state or revision.retained.get("kept"):
                yield f"revision {revision.version} was forgotten, but says something"
            continue
        span = [t for t in turns if revision.from_seq <= t.from_seq and t.through_seq <= revision.through_seq]
        if revision.source_hash != source_hash(span):
            yield f"revision {revision.version} was not made from its span"
        if revision.turns != sum(turn.tokens > 0 for turn in span):
            yield f"revision {revision.version} counts {revision.turns} turns"


def _brief(brief: ConversationBrief) -> Iterator[str]:
    exact = copy.copy(brief)
    decide_due(exact)
    if exact.due != brief.due:
        yield f"due is {brief.due}, but its turns say {exact.due}"
    if brief.token_count != POLICIES[brief.policy].size(Memory.of(brief).state):
        yield "the summary's tokens are counted wrongly"
    folded = Message.objects.filter(
        chat=brief.chat_id, seq__lte=brief.folded_through_seq, role=Role.ASSISTANT, superseded_by=None
    ).exclude(status__in=[Status.FAILED, Status.DELETED])
    by_seq = folded.order_by("-seq").values_list("pk", flat=True)
    highest = by_seq.first() if brief.folded_through_seq else None
    if brief.last_summarized_message_id != highest:
        yield "last_summarized_message is not the highest reply that was folded"


def _coverage(chat: Chat, brief: ConversationBrief, turns: list[Turn]) -> Iterator[str]:
    """Check that every finished turn is in the state, verbatim, in a line, or counted as left out; none in two."""
    context = preview(chat)
    plan = context.plan
    if context.tokens > context.plan.budget or context.tokens != _recount(context):
        yield f"the next prompt's memory has {context.tokens} tokens of {context.plan.budget}"
    shown = [one.from_seq for one in plan.verbatim] + [one.from_seq for one in plan.lines]
    if len(set(shown)) != len(shown) or any(seq <= brief.folded_through_seq for seq in shown):
        yield "a turn is in the next prompt twice"
    finished = [turn for turn in turns if turn.tokens and turn.from_seq > brief.folded_through_seq]
    left_out = [turn for turn in finished if turn.from_seq not in shown]
    without_line = [turn for turn in finished if not turn.line]
    if without_line:
        yield f"{len(without_line)} finished turns have no line"
    if len(left_out) != context.plan.unrepresented:
        yield f"{len(left_out)} turns are nowhere, but {context.plan.unrepresented} are counted as left out"


def _recount(context: Context) -> int:
    """Return the tokens of the memory in a prompt, counted from the messages that are sent."""
    messages = list(context.prompt.messages)
    while context.plan.open_turn and messages and messages[-1].role != "user":
        messages.pop()
    after = sum(section.kind in ("sources", "question") for section in context.sections)
    return sum(message.tokens(count_tokens) for message in messages[: len(messages) - after])


def bill(user: User) -> Iterator[str]:
    """Check that the usage rows add up to the sums of messages, counted by us if not reported, and revisions."""
    replies = Message.objects.filter(chat__owner=user, role=Role.ASSISTANT, input_tokens__isnull=False)
    folds = SummaryRevision.objects.filter(chat__owner=user)
    rows = daily.days_of(user)
    spends: list[Message | SummaryRevision] = [*replies, *folds]
    prompts = ContextRecord.objects.filter(owner_id=user.pk, reply__input_tokens__isnull=True)
    unbilled = list(prompts.exclude(reply__status=Status.FAILED).select_related("reply"))
    estimates = {
        "input_tokens": sum(section["tokens"] for one in unbilled for section in one.sections),
        "output_tokens": sum(one.reply.token_count for one in unbilled),
    }
    if sum(row.get("estimated", 0) for row in rows) != len(unbilled):
        yield f"the usage rows do not have {len(unbilled)} estimates"
    for name, estimate in estimates.items():
        spent = sum(getattr(one, name) or 0 for one in spends) + estimate
        if sum(row[name] for row in rows) != spent:
            yield f"{name} of the usage rows do not add up to {spent}"
    cost = sum((one.cost_usd or Decimal(0) for one in spends), Decimal(0))
    if abs(sum(row["cost_usd"] for row in rows) - float(cost)) > 1e-6:
        yield f"the cost of the usage rows does not add up to {cost}"


def allowance(user: User) -> list[str]:
    """Check that the tokens reserved for the user are those of the open calls, and that the number of calls agrees."""
    with transaction.atomic():  # reservations and settlements wait for this lock
        row = Allowance.objects.select_for_update().filter(pk=user.pk).first() or Allowance(user=user)
        calls: list[Reserved] = [
            *ActiveReply.objects.filter(chat__owner=user, reserved_day__isnull=False),
            *PassingCall.objects.filter(user=user),
        ]
    held = sum(call.reserved_tokens for call in calls if call.reserved_day == row.day)
    found = []
    if row.day_reserved != held:
        found.append(f"{row.day_reserved} tokens are reserved, but calls hold {held}")
    if row.open_streams != len(calls):
        found.append(f"{row.open_streams} calls are counted, but there are {len(calls)}")
    if row.day_tokens < 0 or row.minute_requests < 0:
        found.append("more was given back than was taken")
    return found

"""Store pins: those found in messages, also imported ones, which are replaced, taken back and deleted with them; and
those that people make.

Only people remove what people pinned. What is found is written under the chat's lock, which the caller holds.
`memory.pins.statements` decides what a sentence states and which statement replaces which.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import cast
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from chatmemory.database.compiled import Select
from chatmemory.database.owned import ChatKey
from chatmemory.errors import ChatBusy, Conflict, NotFound
from chatmemory.text.markers import PINS_HEADING
from chatmemory.text.tokens import clipped, heading_cost
from conversations.models import Chat, Message, Role, Status, get_chat, get_message, lock_chat
from memory.models import (
    MAX_CHARS,
    MAX_PINS,
    PEOPLE,
    ConversationBrief,
    Pin,
    PinKind,
    PinnedBy,
    PinScope,
    SummaryRevision,
    new_brief,
)
from memory.pins.section import ImportedPin, PinText, pin_cost
from memory.pins.shared import reaching, scope_of_stated
from memory.pins.statements import Kind, Statement, may_be_lifted, replaces, said_in, statements_to_pin, takes_back

logger = logging.getLogger(__name__)

AS_EXPORTED = ("kind", "by", "start", "scope")
"""Columns that an export has as they are."""

_HOLDING = Select(
    lambda *key: (
        Pin.objects.filter(**ChatKey(*key).columns, ended_at__isnull=True, muted_at__isnull=True)
        .order_by("-seq", "-start", "-pk")
        .values_list("pk", "text", "created_at")
    )
)


def holding_pins(chat: ChatKey) -> list[PinText]:
    """Return the chat's own pins that hold and are not muted, newest first."""
    return [PinText(str(pk), *row) for pk, *row in _HOLDING.rows(*chat)]


def texts_of(owner_id: int, ids: Iterable[str]) -> dict[str, str]:
    """Return the texts of an owner's pins by their ids, including ended ones."""
    rows = Pin.objects.filter(owner_id=owner_id, pk__in=list(ids)).values_list("pk", "text")
    return {str(pk): text for pk, text in rows}


def messages_of(chat: ChatKey, ids: Collection[str]) -> list[int]:
    """Return the seqs of the chat's messages that these pins are of. No query if there are no pins."""
    rows = Pin.objects.filter(**chat.columns, pk__in=ids, message__isnull=False)
    return list(rows.values_list("message__seq", flat=True)) if ids else []


def pin_statements(question: Message) -> None:
    """Pin what a user's message states, for other chats, too, if their owner has that done at once.

    Does nothing if that was done before (for another answer to the message). Call it in the turn's transaction.
    """
    stated = stated_in([question])
    if stated and not _found_in(question).exists():
        pin_stated(question.chat_key, stated, scope_of_stated(question.chat_key))


def _found_in(message: Message) -> QuerySet[Pin]:
    """The pins that were found in a message, also those that a person has corrected since."""
    return Pin.objects.filter(message=message).exclude(kind=PinKind.PINNED)


def pin_quoted(revision: SummaryRevision, statements: Sequence[Statement]) -> None:
    """Pin the sentences of the user's messages that the summarizer of a fold quotes; what no message says is refused.

    A message is left alone if the same was pinned of it before, even if that pin has ended. Call it in the transaction
    that publishes the fold.
    """
    span = revision.from_seq, revision.through_seq
    rows = Message.objects.filter(**revision.chat_key.columns, role=Role.USER, seq__range=span)
    messages = list(rows.filter(status=Status.COMPLETE, superseded_by=None).order_by("-seq"))
    pinned = Pin.objects.filter(**revision.chat_key.columns, message__in=messages)
    known = list(pinned.values_list("message_id", "text", "start"))
    holding = _HoldingPins(revision.chat_key, PinnedBy.SUMMARIZER)
    refused = 0
    for one in statements:
        places = ((message, *said_in(one.text, message.content)) for message in messages)
        message, at, said = next((found for found in places if found[2]), (None, 0, ""))
        if message is None:
            refused += 1
        elif not any(of == message.pk and (at == place or said in text or text in said) for of, text, place in known):
            holding.state(message, [replace(one, text=said, start=at)])
    holding.save()
    if refused:
        extra = {"chat": str(revision.chat_id), "version": revision.version, "quotes": refused}
        logger.warning("quotes of the summarizer are in no message", extra=extra)


def message_changed(message: Message) -> None:
    """Delete the pins that were found in the old text of `message`, and find pins in the new one.

    What those had replaced or taken back holds again, in other chats, too. Pins that people made of the message are
    updated to its new text, or deleted with it. What is still stated holds where it did, and stays muted if it was.
    Call it in the transaction that edits or deletes the message.
    """
    of_it = Pin.objects.filter(message=message)
    was_ended = list(Pin.objects.filter(ended_by=message).exclude(message=message))
    if not (was_ended or of_it.exists() or message.role == Role.USER):
        return
    former = {pin.text: pin for pin in _found_in(message)}
    _found_in(message).delete()
    is_gone = message.status == Status.DELETED
    if is_gone:
        of_it.delete()
    else:
        of_it.update(text=clipped(message.content, MAX_CHARS))
    _hold_again(pin for pin in was_ended if pin.chat_id != message.chat_id)
    stated = [] if is_gone or message.role != Role.USER else statements_to_pin(message.content)
    lifted = scope_of_stated(message.chat_key) if stated else PinScope.CHAT
    holding = _HoldingPins(message.chat_key, lifted=lifted)
    holding.hold_again(pin for pin in was_ended if pin.chat_id == message.chat_id)
    holding.state(message, stated, former)
    holding.save()


def chat_deleted(chat: ChatKey) -> None:
    """Delete the pins of a chat; pins of other chats that its messages had ended hold again.

    Call it before the messages are deleted.
    """
    Pin.objects.filter(**chat.columns).delete()
    ended_here = Pin.objects.filter(owner_id=chat.owner_id, ended_by__chat_id=chat.id)
    _hold_again(ended_here.exclude(scope=PinScope.CHAT))  # by the index of such pins: there are no others


def _hold_again(pins: Iterable[Pin]) -> None:
    """Make pins of several chats hold again."""
    for chat, of_chat in groupby(sorted(pins, key=lambda one: one.chat_id), key=lambda one: one.chat_key):
        holding = _HoldingPins(chat)
        holding.hold_again(of_chat)
        holding.save()


def stated_in(messages: Sequence[Message]) -> list[tuple[Message, Sequence[Statement]]]:
    """The statements in the user's messages of a chat. Takes time, but does not use the database."""
    by_user = (one for one in messages if one.role == Role.USER)
    return [(one, stated) for one in by_user if (stated := statements_to_pin(one.content))]


def pin_stated(
    chat: ChatKey, stated: Iterable[tuple[Message, Sequence[Statement]]], lifted: PinScope = PinScope.CHAT
) -> None:
    """Pin what messages of a chat state, as if they had been sent one by one.

    What may hold in other chats, too, gets the scope `lifted`.
    """
    holding = _HoldingPins(chat, lifted=lifted)
    for message, found in stated:
        holding.state(message, found)
    holding.save()


def restore_pins(chat: ChatKey, pins: Sequence[ImportedPin], messages: Sequence[Message]) -> None:
    """Store the pins of an export; they name `messages` by their number."""
    now = timezone.now()
    by_number: dict[int | None, Message] = dict(enumerate(messages, start=1))
    Pin.objects.bulk_create(
        Pin(
            **chat.columns,
            **{name: getattr(pin, name) for name in AS_EXPORTED},
            text=clipped(pin.text, MAX_CHARS),
            message=by_number.get(pin.message),
            seq=min(pin.seq, len(messages)),
            created_at=pin.created_at or now,
            ended_at=pin.ended_at or (now if pin.ended_by is not None else None),
            ended_by=by_number.get(pin.ended_by),
            muted_at=now if pin.muted else None,
        )
        for pin in pins
    )
    recount(chat)


def exported_pins(chat: ChatKey, last_seq: int) -> tuple[ImportedPin, ...]:
    """Return all pins of a chat, oldest first, without the effects of messages after `last_seq`."""
    rows = Pin.objects.filter(**chat.columns, seq__lte=last_seq).select_related("message", "ended_by")
    exported: list[ImportedPin] = []
    for pin in rows.order_by("seq", "start", "pk"):
        is_here = pin.ended_by is not None and pin.ended_by.chat_id == pin.chat_id
        ended_by = pin.ended_by if pin.ended_by and is_here and pin.ended_by.seq <= last_seq else None
        exported.append(
            ImportedPin(
                **{name: getattr(pin, name) for name in ("text", "seq", "created_at", *AS_EXPORTED)},
                message=pin.message.seq if pin.message else None,
                ended_at=pin.ended_at if ended_by or not is_here else None,
                ended_by=ended_by.seq if ended_by else None,
                muted=pin.muted_at is not None,
            )
        )
    return tuple(exported)


def recount(chat: ChatKey) -> None:
    """Store in the brief how many tokens the pins that hold cost, for the rest of memory."""
    briefs = ConversationBrief.objects.filter(**chat.columns)
    # Locked first: messages of other chats also end pins, without a lock on this chat.
    known = briefs.select_for_update().values_list("pin_tokens", flat=True).first()
    costs = [pin_cost(pin.text) for pin in holding_pins(chat)]
    tokens = heading_cost(PINS_HEADING) + sum(costs) if costs else 0
    if known not in (None, tokens):
        briefs.update(pin_tokens=tokens)


class _HoldingPins:
    """The pins of a chat that hold, updated as messages state something.

    `lifted` is the scope of statements that may hold in other chats. Unless it is `chat`, they also end such pins of
    other chats.
    """

    def __init__(self, chat: ChatKey, by: PinnedBy = PinnedBy.RULE, lifted: PinScope = PinScope.CHAT) -> None:
        self._chat = chat
        self._by = by
        self._lifted = lifted
        holding = list(Pin.objects.filter(**chat.columns, ended_at__isnull=True))
        self._found = sorted((one for one in holding if one.by not in PEOPLE), key=lambda one: one.place)
        self._pinned = [one for one in holding if one.by in PEOPLE]
        """Pins made by people, which no message replaces or takes back."""
        self._new: list[Pin] = []
        self._changed: dict[UUID, Pin] = {}

    @cached_property
    def _elsewhere(self) -> list[Pin]:
        """Pins found in other chats that hold in this one, the newest that prompts have room for."""
        chats = Chat.objects.filter(pk=self._chat.id, owner=self._chat.owner_id)
        rows = reaching(self._chat.owner_id, self._chat.id, chats.values_list("project", flat=True).get())
        return list(rows.exclude(by__in=PEOPLE)[:MAX_PINS])

    def state(self, message: Message, stated: Iterable[Statement], former: Mapping[str, Pin] | None = None) -> None:
        """Pin what `message` states, and end what it replaces or takes back.

        `former` are pins by text that the message had before it was edited: where they hold is not decided again.
        """
        for one in stated:
            scope = self._lifted if may_be_lifted(one) else PinScope.CHAT
            if one.about:
                before = [pin for pin in self._found if (pin.seq, pin.start) < (message.seq, one.start)]
                if scope != PinScope.CHAT:
                    before += [pin for pin in self._elsewhere if pin.created_at < message.created_at]
                gone = [pin for pin in before if takes_back(one, pin.text)]
                for pin in gone:
                    self._end(pin, message, message.created_at)
                if gone or not one.stands_alone:
                    continue
            if not any(other.text == one.text for other in self._pinned):
                was = (former or {}).get(one.text)
                pin = Pin(
                    **self._chat.columns,
                    text=one.text,
                    kind=one.kind,
                    by=self._by,
                    message=message,
                    seq=message.seq,
                    start=one.start,
                    created_at=message.created_at,
                    scope=was.scope if was else scope,
                    muted_at=was.muted_at if was else None,
                )
                self._new.append(pin)
                self.place(pin, now=message.created_at)

    def hold_again(self, pins: Iterable[Pin]) -> None:
        """Make pins of the chat that were ended hold, unless a later pin replaced them."""
        for pin in sorted(pins, key=lambda one: one.place):
            pin.ended_at, pin.ended_by_id = None, None
            self.place(pin)

    def place(self, pin: Pin, now: datetime | None = None) -> None:
        """Make `pin` hold unless a later pin replaced it; end the pins that it replaces.

        Both may be pins of other chats, if they hold in the same ones: those of a project, or all.
        If then more than `MAX_PINS` hold, the oldest that was found in a message ends.
        """
        now = now or timezone.now()
        self._changed[pin.pk] = pin
        elsewhere = [] if pin.scope == PinScope.CHAT else [one for one in self._elsewhere if one.scope == pin.scope]
        for other in [*self._found, *elsewhere]:
            is_later = _is_later(pin, other)
            if is_later and replaces(_stated(pin), _stated(other)):
                self._end(other, pin.message, now)
            elif not is_later and replaces(_stated(other), _stated(pin)):
                pin.ended_at, pin.ended_by = now, other.message
                return
        self._found = sorted([*self._found, pin], key=lambda one: one.place)
        if len(self._found) + len(self._pinned) > MAX_PINS:
            self._end(self._found[0], self._found[-1].message, now)

    def _end(self, pin: Pin, by: Message | None, now: datetime) -> None:
        pin.ended_at, pin.ended_by = now, by
        if pin.chat_id == self._chat.id:
            self._found = [one for one in self._found if one is not pin]
        else:
            self._elsewhere.remove(pin)
        self._changed[pin.pk] = pin

    def save(self) -> None:
        Pin.objects.bulk_create(self._new)
        for pin in self._changed.values():
            if pin not in self._new:
                row = Pin.objects.filter(pk=pin.pk, owner_id=pin.owner_id)  # it may be gone with another chat
                row.update(ended_at=pin.ended_at, ended_by=pin.ended_by_id)
        for chat in sorted({self._chat, *(pin.chat_key for pin in self._changed.values())}, key=lambda one: one.id):
            recount(chat)
        if self._new:
            extra = {"chat": str(self._chat.id), "pins": len(self._new), "by": self._by.value}
            logger.info("pins found", extra=extra)


def _is_later(one: Pin, other: Pin) -> bool:
    """Whether `one` was stated after `other`: in one chat by place, between chats by time."""
    if one.chat_id == other.chat_id:
        return one.place > other.place
    return (one.created_at, one.pk) > (other.created_at, other.pk)


def _stated(pin: Pin) -> Statement:
    return Statement(cast("Kind", pin.kind), pin.text, pin.start)


def pin(
    user: User, chat_id: UUID, *, text: str | None = None, message_id: UUID | None = None, scope: str = PinScope.CHAT
) -> tuple[Pin, bool]:
    """Pin a text, or the text of a message in the user's chat. Return the pin and whether it is new.

    The same text is pinned only once, and keeps its scope. Raise NotFound; ChatBusy for a reply that is being written;
    Conflict for a deleted message, one without text, one pin too many, or the scope `project` without a project.
    """
    with transaction.atomic():
        chat = get_chat(user, chat_id, lock=True)
        _check_scope(chat, scope)
        message = None if message_id is None else get_message(chat, message_id)
        if message is not None and not isinstance(message, Message):
            raise ChatBusy("This reply is still being written. Wait, or cancel it.")
        if message is not None and message.status == Status.DELETED:
            raise Conflict("This message was deleted and cannot be pinned.")
        content = clipped(message.content if message else text or "", MAX_CHARS)
        if not content:
            raise Conflict("This message has no text and cannot be pinned.")
        by_people = Pin.objects.filter(chat=chat, by__in=PEOPLE, ended_at__isnull=True)
        known = by_people.filter(message=message, text=content).first()
        if known is not None:
            return known, False
        if by_people.count() >= MAX_PINS:
            raise Conflict(f"This chat has {MAX_PINS} pins. Remove one first.")
        new = Pin.objects.create(
            chat=chat,
            text=content,
            by=PinnedBy.USER,
            pinned_by=user,
            message=message,
            scope=scope,
            seq=chat.last_seq,
            created_at=timezone.now(),
        )
        ConversationBrief.objects.get_or_create(chat=chat, defaults=new_brief(chat))
        recount(chat.key)
    logger.info("pin made", extra={"chat": str(chat.pk), "pin": str(new.pk)})
    return new, True


def _check_scope(chat: Chat, scope: str) -> None:
    if scope == PinScope.PROJECT and not chat.project:
        raise Conflict("This chat belongs to no project, so its pins cannot hold in one.")


def change(
    user: User, chat_id: UUID, pin_id: UUID, *, scope: str = "", text: str = "", muted: bool | None = None
) -> Pin:
    """Change where a pin of the user's chat holds, what it says, or whether it is muted: only what is given.

    A corrected pin is the user's from then on, but still goes with its message. Raise NotFound, also for a pin that
    has ended; Conflict for the scope `project` without a project.
    """
    with transaction.atomic():
        chat = get_chat(user, chat_id, lock=True)
        _check_scope(chat, scope)
        found = Pin.objects.filter(chat=chat, pk=pin_id, ended_at__isnull=True).first()
        if found is None:
            raise NotFound("This chat has no such pin.")
        if text:
            found.text, found.by, found.pinned_by = clipped(text, MAX_CHARS), PinnedBy.USER, user
        found.scope = scope or found.scope
        if muted is not None:
            found.muted_at = (found.muted_at or timezone.now()) if muted else None
        found.save(update_fields=["text", "by", "pinned_by", "scope", "muted_at"])
        recount(chat.key)
    logger.info("pin changed", extra={"chat": str(chat.pk), "pin": str(found.pk)})
    return found


def unpin(chat: Chat, pin_id: UUID) -> None:
    """Remove a pin from all future prompts. Do nothing if it has ended already. Raise NotFound.

    A pin that is not of a message is deleted. The pin of a message is only ended, so that prompts that contained it
    can still be shown as they were sent.
    """
    with transaction.atomic():
        lock_chat(chat.key)
        row = Pin.objects.filter(chat=chat, pk=pin_id)
        found = row.first()
        if found is None:
            raise NotFound("This chat has no such pin.")
        if found.message_id is None:
            row.delete()
        elif found.ended_at is None:
            found.ended_at = timezone.now()
            found.save(update_fields=["ended_at"])
        recount(chat.key)
    logger.info("pin removed", extra={"chat": str(chat.pk), "pin": str(pin_id)})

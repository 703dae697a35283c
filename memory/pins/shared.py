"""Pins that hold in several chats: those of other chats in a prompt, and where what a message states holds."""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Q, QuerySet

from chatmemory.database.compiled import Select
from chatmemory.database.owned import ChatKey
from conversations.models import Across, Chat
from memory.across.consent import lifts_pins
from memory.models import MAX_PINS, Pin, PinScope
from memory.pins.section import PinText


def reaching(owner_id: int, chat_id: UUID, project: str) -> QuerySet[Pin]:
    """The pins of an owner's other chats that hold in this one, of `project`; newest first, also muted ones."""
    in_project = Q(scope=PinScope.PROJECT, chat__project=project) & ~Q(chat__project="")
    rows = Pin.objects.filter(in_project | Q(scope=PinScope.PERSON), owner_id=owner_id, ended_at__isnull=True)
    rows = rows.filter(chat__temporary=False).exclude(chat__across=Across.OFF).exclude(chat_id=chat_id)
    return rows.exclude(scope=PinScope.CHAT).order_by("-created_at", "-pk")  # by the index of such pins


_ELSEWHERE = Select(
    lambda owner, chat, project: (
        reaching(owner, chat, project).filter(muted_at__isnull=True).values_list("pk", "text", "created_at")[:MAX_PINS]
    )
)


def with_shared_pins(own: Sequence[PinText], chat: Chat) -> Sequence[PinText]:
    """Return its `own` pins and those of other chats that hold in `chat`, newest first; of equal texts the newest.

    The chat must share pins: `memory.across.consent.level_of`.
    """
    rows = _ELSEWHERE.rows(chat.owner_id, chat.pk, chat.project)
    elsewhere = [PinText(str(pk), *row) for pk, *row in rows]
    by_text: dict[str, PinText] = {}
    for one in sorted([*own, *elsewhere], key=lambda one: one.created_at, reverse=True):
        by_text.setdefault(one.text, one)
    return list(by_text.values())


def scope_of_stated(key: ChatKey) -> PinScope:
    """Where what a message of the chat states holds: in the chat, unless its owner has it lifted at once."""
    chat = Chat.objects.select_related("owner__consent").get(pk=key.id, owner=key.owner_id)
    lifted = PinScope.PROJECT if chat.project else PinScope.PERSON
    return lifted if lifts_pins(chat) else PinScope.CHAT

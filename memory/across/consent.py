"""What a person's chats share, and whether pins hold in all: the person decides, else their app, else the server.

A chat can share less than that, never more. It shares in both directions: what it does not give it does not get.
"""

from typing import Literal

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from conversations.accounts.models import App
from conversations.models import Across, Chat
from memory.models import FIRST_CHAT, Consent, MemoryScope

ORDER = [Across.OFF, Across.PINS, Across.ALL]
"""From the least that is shared to the most."""


def level_of(chat: Chat) -> Across:
    """What `chat` shares with the other chats of its owner. No query if its owner's consent and its app were read."""
    if chat.temporary:
        return Across.OFF
    consent: Consent | None = getattr(chat.owner, "consent", None)
    given, _ = sharing_decision(consent, None if consent else chat.app)
    return min(given, Across(chat.across), key=ORDER.index)


def sharing_decision(consent: Consent | None, app: App | None) -> tuple[Across, Literal["person", "app", "server"]]:
    """The most that a person's chats share, and who decided that."""
    if consent:
        return Across(consent.across), "person" if consent.given_by_id == consent.user_id else "app"
    if app and app.across:
        return Across(app.across), "app"
    return Across(settings.MEMORY_ACROSS_CHATS), "server"


def lifts_pins(chat: Chat) -> bool:
    """Whether what a message of `chat` states about its owner holds in the owner's other chats at once."""
    consent: Consent | None = getattr(chat.owner, "consent", None)
    return consent is not None and consent.lifts_pins and level_of(chat) != Across.OFF


def set_consent(person: User, by: User, *, across: Across, lifts_pins: bool) -> Consent:
    """Store what a person's chats share from now on. The sweep adds or removes what can be found of their messages."""
    with transaction.atomic():
        given = {"across": across, "lifts_pins": lifts_pins, "given_by": by}
        consent, _ = Consent.objects.update_or_create(user=person, defaults=given)
        if across == Across.ALL:
            known = MemoryScope.objects.filter(owner=person).values_list("project", flat=True)
            projects = set(Chat.objects.filter(owner=person).values_list("project", flat=True).distinct()) - set(known)
            MemoryScope.objects.bulk_create(
                [MemoryScope(owner=person, project=one) for one in projects], ignore_conflicts=True
            )
        MemoryScope.objects.filter(owner=person).update(fill_after=FIRST_CHAT)
    return consent

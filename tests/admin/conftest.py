"""Fixtures of the admin tests: the users and a chat with memory, and a check that statements join by owner."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client

from conversations.models import Chat
from tests.admin.rows import add_revision, make_chat, say
from tests.support import owners


@pytest.fixture(autouse=True)
def joined_by_owner() -> Iterator[None]:
    """Check that each statement joins tables of owners by owner, also those that look at many."""
    with owners.watch() as findings:
        yield
    assert owners.unexpected(findings) == []


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss")


@pytest.fixture
def staff(boss: User) -> Client:
    client = Client()
    client.force_login(boss)
    return client


@pytest.fixture
def owner() -> User:
    return User.objects.create_user("olga")


@pytest.fixture
def remembered(owner: User) -> Chat:
    """A chat with two revisions, and a reply that has its record."""
    chat = make_chat(owner)
    add_revision(chat, 1, "The hall is booked.", through=2)
    add_revision(chat, 2, "The room is booked.", through=4)
    say(chat, "And where do we sleep?", "At the hostel.")
    return chat

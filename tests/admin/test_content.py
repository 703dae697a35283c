"""What people said is shown only to staff who may read it, and each view is recorded."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from conversations.models import Chat, ContentView, Message
from memory.models import SummaryRevision
from tests.admin.rows import (
    PAGES,
    every_page,
    make_chat,
    make_saying,
    member_of_staff,
    model_of,
    text_of,
)
from tests.support.exhaustive import first_of

pytestmark = pytest.mark.django_db

CANARY = "a heron in the reeds"
VIEWS = [f"view_{page.split('_')[1]}" for page in PAGES]


@pytest.fixture
def saying(owner: User) -> Chat:
    return make_saying(owner, CANARY)


@pytest.fixture
def clerk() -> Client:
    """Staff who may view every page, but no content."""
    return member_of_staff("clerk", *VIEWS)


@pytest.fixture
def reader() -> Client:
    """Staff who may also read content."""
    return member_of_staff("reader", *VIEWS, "view_content", "view_contentview")


def looks(**fields: Any) -> int:
    return ContentView.objects.filter(**fields).count()


# Without the permission


@pytest.mark.promise("P26")
def test_pages_open_without_what_people_said(clerk: Client, saying: Chat) -> None:
    pages = dict(every_page(clerk))
    assert len(pages) > 2 * len(PAGES)
    for name, html in pages.items():
        assert CANARY not in html, name
        assert ("conversations.view_content" in html) == (" " in name), name
    assert looks() == 0


def test_what_is_hidden_is_told_by_length_and_keyed_hash(clerk: Client, saying: Chat, owner: User) -> None:
    other = make_saying(owner, CANARY)

    def shown(seq: int, chat: Chat) -> dict[str, tuple[int, str]]:
        message = Message.objects.get(chat=chat, seq=seq)
        response = clerk.get(reverse("admin:conversations_message_change", args=[message.pk]))
        return {one.name: (one.characters, one.hash) for one in response.context["withheld"]}

    first, second, elsewhere = shown(1, saying), shown(2, saying), shown(1, other)
    assert first["content"][0] == len(f"{CANARY} 0")
    assert first["content"] == second["content"]  # the same was said
    assert first["content"] != first["line"]
    assert first["content"] != elsewhere["content"]
    guess = hashlib.sha256(f"{CANARY} 0".encode()).hexdigest()
    assert not guess.startswith(first["content"][1])


def test_stored_hashes_are_hidden_because_they_can_be_guessed(
    clerk: Client, reader: Client, saying: Chat
) -> None:
    record = Message.objects.exclude(context_record=None).get(chat=saying).context_record
    hidden = text_of(clerk, "memory_contextrecord_change", record.pk)
    assert record.prompt_hash not in hidden
    assert record.prompt_hash in text_of(reader, "memory_contextrecord_change", record.pk)


@pytest.mark.parametrize("page", first_of(PAGES))
def test_titles_are_not_searched(page: str, clerk: Client, saying: Chat) -> None:
    for term, found in ((CANARY, 0), ("olga", 1)):
        response = clerk.get(reverse(f"admin:{page}_changelist"), {"q": term})
        assert min(len(response.context["cl"].result_list), 1) == found
    answer = clerk.get(reverse("admin:autocomplete"), completing("message", CANARY))
    assert answer.json()["results"] == []


ORACLES = {
    "conversations_chat": ["title__startswith", "instructions__contains", "metadata__note__contains"],
    "conversations_message": ["content__contains", "line__contains", "chat__title__contains"],
    "conversations_activereply": ["text__contains", "chat__instructions__contains"],
    "conversations_idempotencykey": ["key__startswith", "chat__title"],
    "memory_conversationbrief": ["global_summary__contains", "state__note__contains"],
    "memory_summaryrevision": ["global_summary__regex", "retained__kept__contains"],
    "memory_contextrecord": ["reply__content__contains", "prompt_hash"],
}


@pytest.mark.parametrize("page", first_of(PAGES, 2))
def test_no_list_can_be_asked_what_a_text_is(page: str, clerk: Client, staff: Client, saying: Chat) -> None:
    for browser in (clerk, staff):
        for lookup in ORACLES[page]:
            answer = browser.get(reverse(f"admin:{page}_changelist"), {lookup: "a"})
            assert answer.status_code == 400, lookup


# With it


@pytest.mark.promise("P26")
def test_each_look_is_recorded_with_who_and_whose(reader: Client, saying: Chat) -> None:
    for page in PAGES:
        for row in model_of(page)._default_manager.all():
            html = text_of(reader, f"{page}_change", row.pk)
            assert CANARY in html, page
            assert looks(page=page, object_id=str(row.pk)) == 1, page
    (seen,) = ContentView.objects.filter(page="conversations_chat")
    reading = User.objects.get(username="reader")
    assert (seen.viewer, seen.viewer_name) == (reading, "reader")
    assert (seen.owner_id, seen.chat_id) == (saying.owner_id, saying.pk)


@pytest.mark.parametrize("page", first_of(PAGES))
def test_a_list_records_the_chats_whose_texts_it_shows(
    page: str, reader: Client, saying: Chat, owner: User
) -> None:
    make_chat(owner, title="")
    html = text_of(reader, f"{page}_changelist")
    assert (CANARY in html) == looks(page=page, object_id="list", chat_id=saying.pk) == looks()


def test_a_list_is_recorded_once_with_a_count(reader: Client, owner: User) -> None:
    other = User.objects.create_user("rosa")
    for number, whose in enumerate([owner, owner, other]):
        make_chat(whose, title=f"{CANARY} {number}")
    assert text_of(reader, "conversations_chat_changelist").count(CANARY) >= 3
    assert looks(object_id="list", count=3, chat_id=None, owner_id=None) == looks() == 1
    text_of(reader, "conversations_chat_changelist", owner=owner.pk)
    assert looks(object_id="list", count=2, chat_id=None, owner_id=owner.pk) == 1
    text_of(reader, "conversations_chat_changelist", q=f"{CANARY} 1")
    assert looks(object_id="search", count=1, chat_id__isnull=False) == 1
    html = text_of(reader, "conversations_contentview_changelist")
    for words in ("3 rows of a list", "1 hit of a search", "several"):
        assert words in html


def test_where_nothing_was_said_nothing_is_recorded(reader: Client, owner: User) -> None:
    chat = make_chat(owner, title="", said="")
    Chat.objects.filter(pk=chat.pk).update(metadata={})
    Message.objects.filter(chat=chat).update(content="", line="", outline="", metadata={})
    assert len(list(every_page(reader))) > 2 * 3
    assert looks() == 0


def completing(model: str, term: str) -> dict[str, str]:
    return {"app_label": "conversations", "model_name": model, "field_name": "chat", "term": term}


def test_a_search_that_finds_titles_is_recorded_wherever_it_is_made(
    reader: Client, saying: Chat, owner: User
) -> None:
    make_chat(owner, title="Tea")
    searched = {"object_id": "search", "chat_id": saying.pk}
    listed = reader.get(reverse("admin:conversations_message_changelist"), {"q": CANARY.upper()})
    assert len(listed.context["cl"].result_list) > 0
    assert looks(**searched) == looks(object_id="list", chat_id=saying.pk) == 1
    assert looks() == 2
    completed = reader.get(reverse("admin:autocomplete"), completing("message", CANARY))
    assert len(completed.json()["results"]) == 1
    assert looks(**searched) == 2
    assert (
        reader.get(reverse("admin:conversations_message_changelist"), {"q": "olga"}).context["cl"].result_list
    )
    assert looks(**searched) == looks(object_id="search") == 2  # a username is not content


def test_what_cannot_be_recorded_is_not_shown(
    reader: Client, saying: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr(type(ContentView.objects), "bulk_create", full)
    reader.raise_request_exception = False
    for page, row in [("conversations_chat", saying), ("memory_conversationbrief", saying)]:
        answer = reader.get(reverse(f"admin:{page}_change", args=[row.pk]))
        assert answer.status_code == 503
        assert CANARY not in answer.content.decode()
    assert CANARY not in reader.get(reverse("admin:conversations_chat_changelist")).content.decode()


# The record of views


def test_the_record_is_read_by_those_who_may_and_holds_no_text(
    reader: Client, clerk: Client, saying: Chat
) -> None:
    text_of(reader, "conversations_chat_change", saying.pk)
    text_of(reader, "conversations_chat_changelist")
    page = "conversations_contentview"
    html = text_of(reader, f"{page}_changelist", chat_id__exact=saying.pk)
    assert "reader" in html
    assert reverse("admin:conversations_chat_change", args=[saying.pk]) in html
    assert CANARY not in html
    for term, found in (("READER", 2), (str(saying.pk), 2), ("olga", 0)):
        assert (
            len(reader.get(reverse(f"admin:{page}_changelist"), {"q": term}).context["cl"].result_list)
            == found
        )
    assert text_of(reader, f"{page}_change", ContentView.objects.all()[0].pk)
    assert looks() == 2  # reading the record is not recorded
    assert clerk.get(reverse(f"admin:{page}_changelist")).status_code == 403


def test_the_record_outlives_what_it_tells_of(
    reader: Client, staff: Client, saying: Chat, django_capture_on_commit_callbacks: Any
) -> None:
    text_of(reader, "conversations_chat_change", saying.pk)
    text_of(reader, "memory_summaryrevision_change", SummaryRevision.objects.filter(chat=saying)[0].pk)
    staff.post(reverse("admin:conversations_chat_delete", args=[saying.pk]), {"post": "yes"})
    reading = User.objects.get(username="reader")
    with django_capture_on_commit_callbacks(execute=True):
        staff.post(reverse("admin:auth_user_delete", args=[reading.pk]), {"post": "yes"})
    assert not Chat.objects.exists()
    assert looks(viewer=None, viewer_name="reader", chat_id=saying.pk, owner_id=saying.owner_id) == 2
    assert "reader" in text_of(staff, "conversations_contentview_changelist")


def test_nobody_changes_the_record(staff: Client, saying: Chat) -> None:
    text_of(staff, "conversations_chat_change", saying.pk)
    (seen,) = ContentView.objects.all()
    page = "admin:conversations_contentview"
    form = {"action": "delete_selected", "_selected_action": str(seen.pk), "post": "yes"}
    staff.post(reverse(f"{page}_changelist"), form)
    for url in (
        reverse(f"{page}_add"),
        *(reverse(f"{page}_{one}", args=[seen.pk]) for one in ("change", "delete")),
    ):
        assert staff.post(url, {"post": "yes", "viewer_name": "x"}).status_code == 403
    assert ContentView.objects.get() == seen

"""What staff can do in the admin, and what nobody can."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django_q.models import OrmQ

from chatmemory.apps import UNWANTED
from chatmemory.database.ids import new_id
from conversations import chat_lifecycle
from conversations.models import ActiveReply, Chat, IdempotencyKey, Message
from memory.models import ContextRecord, ConversationBrief, SummaryRevision
from tests.admin.rows import PAGES, begin, make_chat, text_of
from tests.support.exhaustive import first_of

pytestmark = pytest.mark.django_db


# Forbidden actions


@pytest.mark.parametrize("page", first_of(PAGES, 2))
def test_history_cannot_be_written_by_hand(page: str, staff: Client, remembered: Chat) -> None:
    begin(remembered, "And then?", "a key")
    model = next(
        model for model in admin.site._registry if f"{model._meta.app_label}_{model._meta.model_name}" == page
    )
    row = model._default_manager.all()[0]
    assert staff.get(reverse(f"admin:{page}_add")).status_code == 403
    assert staff.post(reverse(f"admin:{page}_change", args=[row.pk]), {"title": "x"}).status_code == 403
    if page not in ("conversations_chat", "conversations_message"):
        assert staff.post(reverse(f"admin:{page}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
        form = {"action": "delete_selected", "_selected_action": str(row.pk), "post": "yes"}
        staff.post(reverse(f"admin:{page}_changelist"), form)
    assert model._default_manager.filter(pk=row.pk).exists()


def test_the_pages_that_run_code_or_mint_tokens_are_gone(staff: Client) -> None:
    registered = {model._meta.label for model in admin.site._registry}
    assert not registered & set(UNWANTED)
    for path in ("django_q/schedule/add/", "django_q/ormq/", "django_q/failure/", "knox/authtoken/add/"):
        assert staff.get(f"/admin/{path}").status_code == 404


@pytest.mark.parametrize("page", first_of(PAGES, 2))
def test_strangers_and_staff_without_permission_see_nothing(page: str, remembered: Chat) -> None:
    client = Client()
    assert client.get(reverse(f"admin:{page}_changelist")).status_code == 302
    client.force_login(User.objects.create_user("clerk", is_staff=True))
    assert client.get(reverse(f"admin:{page}_changelist")).status_code == 403
    assert client.get(reverse(f"admin:{page}_change", args=[new_id()])).status_code in (302, 403)


# Deleting a chat


def gone(chat: Chat) -> bool:
    of_chat = [Message, SummaryRevision, ConversationBrief, ActiveReply, IdempotencyKey]
    rows = [model._default_manager.filter(chat_id=chat.pk) for model in of_chat]
    rows += [Chat.objects.filter(pk=chat.pk), ContextRecord.objects.filter(reply__chat_id=chat.pk)]
    return not any(found.exists() for found in rows)


def test_a_chat_is_deleted_with_all_that_stems_from_it(staff: Client, remembered: Chat, owner: User) -> None:
    other = make_chat(owner)
    page = text_of(staff, "conversations_chat_delete", remembered.pk)
    assert "Messages: 14" in page
    staff.post(reverse("admin:conversations_chat_delete", args=[remembered.pk]), {"post": "yes"})
    assert gone(remembered)
    assert Message.objects.filter(chat=other).count() == 12


def test_selected_chats_are_deleted_through_the_service(
    staff: Client, remembered: Chat, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, kept = make_chat(owner), make_chat(owner)
    deleted: list[Any] = []
    real = chat_lifecycle.delete_chat

    def delete_chat(chat: Chat) -> None:
        deleted.append(chat.pk)
        real(chat)

    monkeypatch.setattr(chat_lifecycle, "delete_chat", delete_chat)
    form = {"action": "delete_selected", "_selected_action": [str(remembered.pk), str(other.pk)]}
    assert b"Messages: 26" in staff.post(reverse("admin:conversations_chat_changelist"), form).content
    staff.post(reverse("admin:conversations_chat_changelist"), {**form, "post": "yes"})
    assert set(deleted) == {remembered.pk, other.pk}
    assert gone(remembered)
    assert not gone(kept)


def test_a_user_is_erased_with_all_that_is_theirs(
    staff: Client, remembered: Chat, owner: User, django_capture_on_commit_callbacks: Any
) -> None:
    other = User.objects.create_user("rosa")
    url = reverse("admin:auth_user_delete", args=[owner.pk])
    page = text_of(staff, "auth_user_delete", owner.pk)
    assert "Chats: 1" in page
    assert "Messages: 14" in page
    with django_capture_on_commit_callbacks(execute=True):
        assert "within minutes" in staff.post(url, {"post": "yes"}, follow=True).content.decode()
        assert not User.objects.get(pk=owner.pk).is_active, "out of use before all of it is gone"
    assert gone(remembered)
    assert not User.objects.filter(pk=owner.pk).exists()
    assert LogEntry.objects.get(object_id=str(owner.pk)).object_repr == f"user {owner.pk}"
    form = {"action": "delete_selected", "_selected_action": [other.pk], "post": "yes"}
    with django_capture_on_commit_callbacks(execute=True):
        staff.post(reverse("admin:auth_user_changelist"), form)
    assert not User.objects.filter(pk=other.pk).exists()


# Forgetting a message


def test_a_message_is_forgotten(staff: Client, remembered: Chat) -> None:
    message = Message.objects.get(chat=remembered, seq=3)
    assert "Message 3 of A trip" in text_of(staff, "conversations_message_delete", message.pk)
    staff.post(reverse("admin:conversations_message_delete", args=[message.pk]), {"post": "yes"})
    message.refresh_from_db()
    assert (message.status, message.content) == ("deleted", "")
    others = list(Message.objects.filter(chat=remembered, seq__in=[5, 7]))
    form = {"action": "delete_selected", "_selected_action": [str(one.pk) for one in others], "post": "yes"}
    staff.post(reverse("admin:conversations_message_changelist"), form)
    assert Message.objects.filter(chat=remembered, status="deleted").count() == 3


def test_a_question_that_is_being_answered_is_not_forgotten(staff: Client, remembered: Chat) -> None:
    question = begin(remembered, "And then?", "a key").user_message
    url = reverse("admin:conversations_message_delete", args=[question.pk])
    assert "its answer is being written" in staff.get(url).content.decode()
    staff.post(url, {"post": "yes"})
    form = {"action": "delete_selected", "_selected_action": str(question.pk), "post": "yes"}
    staff.post(reverse("admin:conversations_message_changelist"), form)
    question.refresh_from_db()
    assert question.content == "And then?"


def test_forgetting_needs_its_permission(remembered: Chat) -> None:
    client = Client()
    client.force_login(clerk("view_message", "view_content"))
    message = Message.objects.get(chat=remembered, seq=3)
    url = reverse("admin:conversations_message_delete", args=[message.pk])
    assert client.post(url, {"post": "yes"}).status_code == 403
    form = {"action": "delete_selected", "_selected_action": str(message.pk), "post": "yes"}
    client.post(reverse("admin:conversations_message_changelist"), form)
    message.refresh_from_db()
    assert message.status == "complete"


def test_deleting_needs_its_permission(remembered: Chat) -> None:
    client = Client()
    client.force_login(clerk("view_chat"))
    url = reverse("admin:conversations_chat_delete", args=[remembered.pk])
    assert client.post(url, {"post": "yes"}).status_code == 403
    assert not gone(remembered)


# Folding again


def clerk(*permissions: str) -> User:
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


@pytest.mark.parametrize("page", first_of(["conversations_chat", "memory_conversationbrief"]))
@pytest.mark.parametrize(("action", "requested"), [("resummarize", "update"), ("rebuild", "rebuild")])
def test_memory_is_made_anew_after_a_confirmation(
    page: str, action: str, requested: str, staff: Client, owner: User
) -> None:
    chats = [make_chat(owner) for _ in range(3)]
    form: dict[str, Any] = {"action": action, "_selected_action": [str(chat.pk) for chat in chats[:2]]}
    url = reverse(f"admin:{page}_changelist")

    asked = staff.post(url, form).content.decode()
    assert "2 chats" in asked
    assert not ConversationBrief.objects.exclude(requested="").exists()
    assert not OrmQ.objects.exists()

    answered = staff.post(url, {**form, "confirmed": "yes"}, follow=True).content.decode()
    assert "2 chats are being summarized in the background" in answered
    wanted = dict(ConversationBrief.objects.values_list("chat_id", "requested"))
    assert [wanted[chat.pk] for chat in chats] == [requested, requested, ""]
    assert OrmQ.objects.count() == 2


def test_all_chats_of_a_search_can_be_chosen(staff: Client, owner: User) -> None:
    for number in range(3):
        make_chat(owner, title=f"Trip {number}")
    other = make_chat(owner, title="Tea")
    url = f"{reverse('admin:conversations_chat_changelist')}?q=trip"
    form = {"action": "rebuild", "_selected_action": str(other.pk), "select_across": "1", "index": "0"}
    asked = staff.post(url, form).content.decode()
    assert "3 chats" in asked
    assert 'name="select_across" value="1"' in asked
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([\w-]+)">', asked)
    staff.post(url, dict(hidden))
    assert ConversationBrief.objects.filter(requested="rebuild").count() == 3
    assert ConversationBrief.objects.get(chat=other).requested == ""


def test_the_pages_of_chat_and_brief_offer_both_actions(staff: Client, remembered: Chat) -> None:
    for page in ("conversations_chat", "memory_conversationbrief"):
        html = text_of(staff, f"{page}_change", remembered.pk)
        assert 'name="action" value="resummarize"' in html
        assert f'name="_selected_action" value="{remembered.pk}"' in html


def test_without_permission_nothing_is_offered_or_done(remembered: Chat) -> None:
    client = Client()
    client.force_login(clerk("view_chat", "view_conversationbrief"))
    for page in ("conversations_chat", "memory_conversationbrief"):
        assert 'value="rebuild"' not in text_of(client, f"{page}_change", remembered.pk)
        form = {"action": "rebuild", "_selected_action": str(remembered.pk), "confirmed": "yes"}
        client.post(reverse(f"admin:{page}_changelist"), form)
    assert ConversationBrief.objects.get(chat=remembered).requested == ""


def test_a_request_from_another_site_is_refused(boss: User, remembered: Chat) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(boss)
    form = {"action": "rebuild", "_selected_action": str(remembered.pk), "confirmed": "yes"}
    assert client.post(reverse("admin:conversations_chat_changelist"), form).status_code == 403
    assert ConversationBrief.objects.get(chat=remembered).requested == ""

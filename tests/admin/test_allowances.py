"""A user's own limits are set by staff with the permission; usage counted so far does not change."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from conversations import chat_lifecycle
from conversations.models import Allowance
from tests.admin.rows import begin, make_chat, member_of_staff
from tests.support.invariants import allowance

pytestmark = pytest.mark.django_db

OWN = {"requests_per_minute": "7", "tokens_per_day": "", "streams": "0"}


def change(client: Client, user: User, **more: Any) -> int:
    url = reverse("admin:conversations_allowance_change", args=[user.pk])
    return client.post(url, OWN | more).status_code


def own(user: User) -> tuple[int | None, int | None, int | None]:
    row = Allowance.objects.get(pk=user.pk)
    return row.requests_per_minute, row.tokens_per_day, row.streams


def test_an_operator_sets_a_users_own_numbers(owner: User) -> None:
    client = member_of_staff("operator", "add_allowance", "change_allowance", "view_allowance", "view_user")
    add = reverse("admin:conversations_allowance_add")
    assert client.post(add, OWN | {"user": str(owner.pk)}).status_code == 302
    assert own(owner) == (7, None, 0)
    assert change(client, owner, requests_per_minute="", tokens_per_day="1000") == 302
    assert own(owner) == (None, 1000, 0)
    for wrong in ("-1", "x"):
        assert change(client, owner, streams=wrong) == 200
    assert own(owner) == (None, 1000, 0)


def test_what_is_taken_is_not_the_pages_to_write(owner: User) -> None:
    client = member_of_staff("operator", "change_allowance", "view_allowance")
    begin(make_chat(owner), "And?", "key")
    before = Allowance.objects.get(pk=owner.pk)
    assert before.day_reserved > 0
    forged = {"minute_requests": "0", "day_tokens": "0", "day_reserved": "0", "open_streams": "0", "day": ""}
    assert change(client, owner, **forged) == 302
    after = Allowance.objects.get(pk=owner.pk)
    assert own(owner) == (7, None, 0)
    taken = ("minute", "minute_requests", "day", "day_tokens", "day_reserved", "open_streams")
    assert [getattr(after, name) for name in taken] == [getattr(before, name) for name in taken]
    assert allowance(owner) == []


def test_nobody_else_sets_any(owner: User) -> None:
    begin(make_chat(owner), "And?", "key")
    client = member_of_staff("viewer", "view_allowance")
    assert change(client, owner) == 403
    assert client.post(reverse("admin:conversations_allowance_add"), OWN).status_code == 403
    assert own(owner) == (None, None, None)


def test_an_allowance_goes_with_its_user_alone(
    owner: User, boss: User, django_capture_on_commit_callbacks: Any
) -> None:
    chat = make_chat(owner)
    begin(chat, "And?", "key")
    client = Client()
    client.force_login(boss)
    delete = reverse("admin:conversations_allowance_delete", args=[owner.pk])
    assert client.post(delete, {"post": "yes"}).status_code == 403
    chat_lifecycle.delete_chat(chat)
    goes = reverse("admin:auth_user_delete", args=[owner.pk])
    with django_capture_on_commit_callbacks(execute=True):
        assert client.post(goes, {"post": "yes"}).status_code == 302
    assert not User.objects.filter(pk=owner.pk).exists()
    assert not Allowance.objects.exists()


def test_it_is_found_by_its_user(owner: User) -> None:
    Allowance.objects.create(user=owner, streams=4321)
    client = member_of_staff("viewer", "view_allowance")
    listed = reverse("admin:conversations_allowance_changelist")
    assert "4321" in client.get(listed, {"q": "olga"}).content.decode()
    assert "4321" not in client.get(listed, {"q": "nobody"}).content.decode()

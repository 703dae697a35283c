"""The page of a user links to their rows; the audit log is written in sentences."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from conversations.models import Allowance, Chat, ContentView
from tests.admin.rows import make_chat, member_of_staff, text_of

pytestmark = pytest.mark.django_db


def test_a_user_leads_to_chats_limits_tokens_and_looks(staff: Client, owner: User) -> None:
    make_chat(owner, turns=1)
    html = text_of(staff, "auth_user_change", owner.pk)
    for words in ("1 chat<", "0 tokens today", "set their own", "0 valid", "what they read as staff"):
        assert words in html
    for url in re.findall(r'class="readonly"><a href="([^"]+)"', html):
        assert staff.get(url.replace("&amp;", "&")).status_code == 200, url


def test_usage_is_of_today(staff: Client, owner: User) -> None:
    Allowance.objects.create(user=owner, day=timezone.now().date(), day_tokens=12345, open_streams=1)
    html = text_of(staff, "auth_user_change", owner.pk)
    assert "12,345 tokens today, 1 reply being written" in html
    assert "see and set" in html
    Allowance.objects.update(day="2020-01-01")
    assert "0 tokens today" in text_of(staff, "auth_user_change", owner.pk)


def test_a_user_is_found_by_name_where_a_limit_is_set(staff: Client, owner: User) -> None:
    html = text_of(staff, "conversations_allowance_add")
    assert "admin-autocomplete" in html
    asked = {"app_label": "conversations", "model_name": "allowance", "field_name": "user", "term": "ol"}
    found = staff.get(reverse("admin:autocomplete"), asked).json()["results"]
    assert [one["text"] for one in found] == ["olga"]


def test_the_audit_log_is_told_in_words(staff: Client, remembered: Chat, owner: User) -> None:
    reader = member_of_staff("reader", "view_chat", "view_content")
    text_of(reader, "conversations_chat_change", remembered.pk)
    text_of(reader, "conversations_chat_changelist")
    html = text_of(staff, "conversations_contentview_changelist")
    for words in ("a chat", "1 row of a list", ">olga<", ">reader<"):
        assert words in html
    assert "conversations_chat<" not in html
    ContentView.objects.update(owner_id=10**6)
    assert "user 1000000, deleted" in text_of(staff, "conversations_contentview_changelist")


def test_the_audit_log_costs_the_same_however_many_looks(staff: Client, remembered: Chat) -> None:
    def cost(looks: int) -> int:
        ContentView.objects.bulk_create(
            ContentView(
                viewer_name="x",
                owner_id=n,
                chat_id=remembered.pk,
                page="conversations_chat",
                object_id="list",
            )
            for n in range(looks)
        )
        with CaptureQueriesContext(connection) as captured:
            text_of(staff, "conversations_contentview_changelist")
        return len(captured)

    assert cost(2) == cost(40)

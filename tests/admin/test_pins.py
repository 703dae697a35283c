"""The pins on a chat's page: their text for staff who may read it, who pinned it, and who may remove it."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from conversations.models import Chat
from memory.models import Pin
from memory.pins import by_rule, manual
from tests.admin.rows import say

pytestmark = pytest.mark.django_db
PAGE = "/admin/conversations/chat/{}/change/"
METRIC = "Always answer in metric units."


@pytest.fixture
def pinned(owner: User, remembered: Chat) -> Chat:
    """A chat with a pin that was detected, and one made by its owner."""
    say(remembered, METRIC, "I will.")
    by_rule.pin_statements(remembered.messages.get(content=METRIC))
    manual.pin(owner, remembered.pk, text="The code word is <b>heron</b>.")
    return remembered


def test_the_page_shows_them_with_who_pinned_each(staff: Client, pinned: Chat) -> None:
    page = staff.get(PAGE.format(pinned.pk)).content.decode()
    assert METRIC in page
    assert "The code word is &lt;b&gt;heron&lt;/b&gt;." in page
    assert "found by rule" in page
    assert "Pinned · olga" in page


def test_staff_remove_one(staff: Client, pinned: Chat) -> None:
    pin = Pin.objects.get(by="rule")
    where = f"/admin/conversations/chat/{pinned.pk}/pins/{pin.pk}/remove/"
    assert staff.get(where).status_code == 405
    for _ in range(2):
        answer = staff.post(where, follow=True)
        assert answer.status_code == 200
    assert "The pin was removed" in staff.post(where, follow=True).content.decode()
    assert list(Pin.objects.filter(ended_at=None).values_list("by", flat=True)) == ["user"]
    Pin.objects.all().delete()
    assert "already removed" in staff.post(where, follow=True).content.decode()


def test_who_may_not_read_or_remove_does_neither(pinned: Chat) -> None:
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="view_chat"))
    client = Client()
    client.force_login(clerk)
    page = client.get(PAGE.format(pinned.pk)).content.decode()
    assert "found by rule" in page
    assert METRIC not in page
    assert "heron" not in page
    assert "/remove/" not in page
    pin = Pin.objects.get(by="rule")
    assert client.post(f"/admin/conversations/chat/{pinned.pk}/pins/{pin.pk}/remove/").status_code == 403
    assert Pin.objects.filter(ended_at=None).count() == 2

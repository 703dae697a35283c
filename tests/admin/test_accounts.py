"""Users, their limits and their API tokens in the admin."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from knox.models import AuthToken

from conversations import chat_lifecycle
from conversations.accounts import api_tokens
from conversations.accounts.end_users import create_app
from conversations.accounts.models import Allowance, TokenGrant
from conversations.admin import accounts
from tests.admin.rows import begin, make_chat, member_of_staff, text_of
from tests.support.invariants import allowance

pytestmark = pytest.mark.django_db

EVERYTHING = {"everything": "Revoke all tokens and end all sessions"}
OWN = {"requests_per_minute": "7", "tokens_per_day": "", "streams": "0"}


def test_a_user_leads_to_chats_limits_tokens_and_the_audit_log(staff: Client, owner: User) -> None:
    make_chat(owner, turns=1)
    html = text_of(staff, "auth_user_change", owner.pk)
    for words in (">1 chat<", "0 tokens today", "set their own", "0 valid API tokens", "read as staff"):
        assert words in html
    Allowance.objects.create(user=owner, day=timezone.now().date(), day_tokens=12345, open_streams=1)
    html = text_of(staff, "auth_user_change", owner.pk)
    assert "12,345 tokens today · 1 reply being written" in html
    assert reverse("admin:conversations_allowance_change", args=[owner.pk]) in html
    Allowance.objects.update(day="2020-01-01")
    assert "0 tokens today" in text_of(staff, "auth_user_change", owner.pk)


def test_staff_export_a_users_data_on_the_record(staff: Client, owner: User) -> None:
    make_chat(owner)
    url = reverse("admin:conversations_chat_export", args=[owner.pk])
    assert f'href="{url}">Export data<' in text_of(staff, "auth_user_change", owner.pk)
    answer = staff.get(url)
    assert "attachment" in answer["Content-Disposition"]
    assert "user: 1 chat of an export" in text_of(staff, "conversations_contentview_changelist")
    for kept_out in (("view_user", "view_chat"), ("view_chat", "view_content")):
        assert member_of_staff("-".join(kept_out), *kept_out).get(url).status_code == 403


def test_a_user_is_erased_with_all_that_is_theirs(
    staff: Client, owner: User, django_capture_on_commit_callbacks: Any
) -> None:
    chat, other = make_chat(owner), User.objects.create_user("rosa")
    begin(chat, "And?", "key")
    page = text_of(staff, "auth_user_delete", owner.pk)
    assert "Chats: 1" in page
    assert "cannot be undone" in page
    assert "summaries and their versions, pins and files" in page
    chat_lifecycle.delete_chat(chat)
    url = reverse("admin:auth_user_delete", args=[owner.pk])
    with django_capture_on_commit_callbacks(execute=True):
        assert "within minutes" in staff.post(url, {"post": "yes"}, follow=True).content.decode()
        assert not User.objects.get(pk=owner.pk).is_active, "out of use before all of it is gone"
    assert not User.objects.filter(pk=owner.pk).exists()
    assert not Allowance.objects.exists()
    assert LogEntry.objects.get(object_id=str(owner.pk)).object_repr == f"user {owner.pk}"
    form = {"action": "delete_selected", "_selected_action": [other.pk], "post": "yes"}
    with django_capture_on_commit_callbacks(execute=True):
        staff.post(reverse("admin:auth_user_changelist"), form)
    assert not User.objects.filter(pk=other.pk).exists()


# Limits


def change(client: Client, user: User, **more: Any) -> int:
    url = reverse("admin:conversations_allowance_change", args=[user.pk])
    return client.post(url, OWN | more).status_code


def own(user: User) -> tuple[int | None, int | None, int | None]:
    row = Allowance.objects.get(pk=user.pk)
    return row.requests_per_minute, row.tokens_per_day, row.streams


def test_an_operator_sets_a_users_own_limits(owner: User) -> None:
    client = member_of_staff("operator", "add_allowance", "change_allowance", "view_allowance", "view_user")
    completed = {"app_label": "conversations", "model_name": "allowance", "field_name": "user", "term": "ol"}
    found = client.get(reverse("admin:autocomplete"), completed).json()["results"]
    assert [one["text"] for one in found] == ["olga"]
    add = reverse("admin:conversations_allowance_add")
    assert client.post(add, OWN | {"user": str(owner.pk)}).status_code == 302
    assert own(owner) == (7, None, 0)
    assert change(client, owner, requests_per_minute="", tokens_per_day="1000") == 302
    assert own(owner) == (None, 1000, 0)
    for wrong in ("-1", "x"):
        assert change(client, owner, streams=wrong) == 200
    assert own(owner) == (None, 1000, 0)
    listed = reverse("admin:conversations_allowance_changelist")
    for term, count in (("olga", 1), ("nobody", 0)):
        assert len(client.get(listed, {"q": term}).context["cl"].result_list) == count


def test_usage_cannot_be_written_and_limits_need_their_permission(owner: User) -> None:
    begin(make_chat(owner), "And?", "key")
    viewer = member_of_staff("viewer", "view_allowance")
    assert change(viewer, owner) == 403
    assert viewer.post(reverse("admin:conversations_allowance_add"), OWN).status_code == 403
    delete = reverse("admin:conversations_allowance_delete", args=[owner.pk])
    client = member_of_staff("operator", "change_allowance", "view_allowance", "delete_allowance")
    assert client.post(delete, {"post": "yes"}).status_code == 403
    before = Allowance.objects.get(pk=owner.pk)
    assert before.day_reserved > 0
    forged = {"minute_requests": "0", "day_tokens": "0", "day_reserved": "0", "open_streams": "0", "day": ""}
    assert change(client, owner, **forged) == 302
    after = Allowance.objects.get(pk=owner.pk)
    assert own(owner) == (7, None, 0)
    assert (after.day_reserved, after.open_streams) == (before.day_reserved, before.open_streams)
    assert allowance(owner) == []


# API tokens


def url_of(user: User) -> str:
    return reverse("admin:auth_user_tokens", args=[user.pk])


def test_tokens_are_listed_without_telling_them(staff: Client, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    row, text = AuthToken.objects.create(owner, expiry=timedelta(days=30))
    AuthToken.objects.create(owner, expiry=timedelta(seconds=-1))
    html = staff.get(url_of(owner)).content.decode()
    assert text[:8] in html
    assert text[:9] not in html
    assert row.digest not in html
    assert html.count('name="token"') == 1
    for _ in range(4):
        AuthToken.objects.create(owner)
    monkeypatch.setattr(accounts, "MAX_SHOWN", 3)
    html = staff.get(url_of(owner)).content.decode()
    assert (html.count('name="token"'), "Showing the newest 3;" in html) == (3, True)
    assert staff.get("/admin/auth/user/999999/tokens/").status_code == 404


def test_the_chosen_ones_are_revoked(staff: Client, owner: User) -> None:
    chosen, kept = (AuthToken.objects.create(owner)[0] for _ in range(2))
    other = AuthToken.objects.create(User.objects.create(username="bob"))[0]
    ids = [api_tokens.id_of(chosen), api_tokens.id_of(other), "%", "\0"]
    page = staff.post(url_of(owner), {"token": ids[:3]}, follow=True)
    assert "API tokens revoked: 1." in page.content.decode()
    assert str(LogEntry.objects.get()) == "Changed “olga” — API tokens revoked: 1."
    assert staff.post(url_of(owner), {"token": ids}).status_code == 302
    staff.post(url_of(owner))
    assert set(AuthToken.objects.all()) == {kept, other}


def test_everything_that_lets_a_user_in_is_ended(staff: Client, owner: User, boss: User) -> None:
    theirs = Client()
    theirs.force_login(owner)
    AuthToken.objects.create(owner)
    page = staff.post(url_of(owner), EVERYTHING, follow=True)
    assert "API tokens revoked: 1, sessions ended: 1." in page.content.decode()
    assert "_auth_user_id" not in theirs.session
    assert not AuthToken.objects.exists()
    page = staff.post(url_of(boss), EVERYTHING, follow=True)
    assert page.redirect_chain[-1][0].startswith("/admin/login/")


def test_tokens_are_revoked_with_permission_except_superusers(owner: User, boss: User) -> None:
    for user in (owner, boss):
        AuthToken.objects.create(user)
    viewer = member_of_staff("viewer", "view_user")
    html = viewer.get(url_of(owner)).content.decode()
    assert 'name="token"' not in html
    assert "everything" not in html
    assert viewer.post(url_of(owner), EVERYTHING).status_code == 403
    clerk = member_of_staff("clerk", "view_user", "delete_authtoken")
    assert clerk.post(url_of(owner), EVERYTHING).status_code == 302
    assert clerk.post(url_of(boss), EVERYTHING).status_code == 403
    assert [token.user for token in AuthToken.objects.all()] == [boss]
    stranger = member_of_staff("stranger", "delete_authtoken")
    assert stranger.get(url_of(owner)).status_code == 403


MAKES = {"make": "yes", "lifetime": "90", "scopes": "chat"}


def make(client: Client, user: User, **more: str) -> str:
    """Create a token and return it as the page shows it, once; "" if it shows none."""
    answer = client.post(url_of(user), MAKES | more)
    return answer.context["new_token"] if answer.status_code == 200 else ""


def test_a_superuser_makes_a_token_that_is_shown_once(staff: Client, owner: User) -> None:
    text = make(staff, owner)
    (row,) = AuthToken.objects.filter(user=owner)
    assert row.expiry is not None
    assert abs(row.expiry - timezone.now() - timedelta(days=90)) < timedelta(minutes=1)
    answer = Client().get("/v1/chats", headers={"Authorization": f"Bearer {text}"})
    assert answer.status_code == 200
    assert text not in staff.get(url_of(owner)).content.decode()
    entry = str(LogEntry.objects.get())
    assert (text[:8] in entry, text[:9] in entry) == (True, False)
    assert make(staff, owner, lifetime="0")
    assert AuthToken.objects.filter(user=owner, expiry=None).count() == 1
    for odd in ("", "1", "-5", "x", "9" * 40):
        assert make(staff, owner, lifetime=odd) == ""
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert staff.post(url_of(owner), MAKES).status_code == 403
    assert AuthToken.objects.count() == 2


def test_a_token_has_a_name_and_scopes_and_only_an_apps_acts_for_its_people(staff: Client, owner: User) -> None:
    shop = create_app("shop").user
    both = "act-for-users read-only"
    assert make(staff, shop, scopes=both, name=f" nightly\0 {'x' * 200}")
    grant = TokenGrant.objects.get()
    assert (grant.name[:9], len(grant.name), grant.scopes) == ("nightly x", 100, both.split())
    html = staff.get(url_of(shop)).content.decode()
    assert "nightly x" in html
    assert "<td>act-for-users, read-only</td>" in html
    assert make(staff, shop, scopes="act-for-users remember-named")
    assert "<td>act-for-users, remember-named</td>" in staff.get(url_of(shop)).content.decode()
    assert make(staff, owner, scopes="chat remember-named")
    for scopes in (both, "act-for-users", "", "chat read-only", "read-only remember-named", "remember-named", "x"):
        assert make(staff, owner, scopes=scopes) == ""
    assert "act-for-users" not in staff.get(url_of(owner)).content.decode()


def test_other_staff_make_tokens_for_themselves_alone(owner: User, boss: User) -> None:
    """With another user's token, staff could read that user's chats without a record."""
    clerk = member_of_staff("clerk", "view_user", "add_authtoken", "view_content")
    for user in (owner, boss):
        assert clerk.post(url_of(user), MAKES).status_code == 403
        assert 'name="make"' not in clerk.get(url_of(user)).content.decode()
    assert not AuthToken.objects.exists()
    assert make(clerk, User.objects.get(username="clerk"))
    viewer = member_of_staff("viewer", "view_user")
    answer = viewer.post(url_of(User.objects.get(username="viewer")), MAKES)
    assert answer.status_code == 403

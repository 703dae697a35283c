"""A user's tokens in the admin: who may see and revoke them, and that none is shown in full."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from knox.models import AuthToken

from conversations.accounts import api_tokens
from conversations.admin import tokens
from tests.admin.rows import member_of_staff, text_of

pytestmark = pytest.mark.django_db
ALL = {"everything": "Revoke all tokens and end all sessions"}


def url_of(user: User) -> str:
    return reverse("admin:auth_user_tokens", args=[user.pk])


def test_tokens_are_listed_without_telling_them(staff: Client, owner: User) -> None:
    row, text = AuthToken.objects.create(owner, expiry=timedelta(days=30))
    AuthToken.objects.create(owner, expiry=timedelta(seconds=-1))
    assert ">1 valid<" in text_of(staff, "auth_user_change", owner.pk)
    html = staff.get(url_of(owner)).content.decode()
    assert text[:8] in html
    assert text[:9] not in html
    assert row.digest not in html
    assert html.count('name="token"') == 1


def test_the_chosen_ones_are_revoked(staff: Client, owner: User) -> None:
    chosen, kept = (AuthToken.objects.create(owner)[0] for _ in range(2))
    other = AuthToken.objects.create(User.objects.create(username="bob"))[0]
    ids = [api_tokens.id_of(chosen), api_tokens.id_of(other), "%", "\0"]
    page = staff.post(url_of(owner), {"token": ids[:3]}, follow=True)
    assert "API tokens revoked: 1." in page.content.decode()
    assert set(AuthToken.objects.all()) == {kept, other}
    assert str(LogEntry.objects.get()) == "Changed “olga” — API tokens revoked: 1."
    assert staff.post(url_of(owner), {"token": ids}).status_code == 302
    staff.post(url_of(owner))
    assert set(AuthToken.objects.all()) == {kept, other}


def test_everything_that_lets_a_user_in_is_ended(staff: Client, owner: User) -> None:
    theirs = Client()
    theirs.force_login(owner)
    AuthToken.objects.create(owner)
    page = staff.post(url_of(owner), ALL, follow=True)
    assert "API tokens revoked: 1, sessions ended: 1." in page.content.decode()
    assert "_auth_user_id" not in theirs.session
    assert not AuthToken.objects.exists()


def test_whoever_ends_their_own_sessions_signs_in_again(staff: Client, boss: User) -> None:
    page = staff.post(url_of(boss), ALL, follow=True)
    assert page.redirect_chain[-1][0].startswith("/admin/login/")


def test_those_without_the_permission_look_on(owner: User) -> None:
    clerk = member_of_staff("clerk", "view_user")
    AuthToken.objects.create(owner)
    html = clerk.get(url_of(owner)).content.decode()
    assert 'name="token"' not in html
    assert "everything" not in html
    assert clerk.post(url_of(owner), ALL).status_code == 403
    assert AuthToken.objects.exists()


def test_those_with_the_permission_revoke_but_not_a_superusers(owner: User, boss: User) -> None:
    clerk = member_of_staff("clerk", "view_user", "delete_authtoken")
    for user in (owner, boss):
        AuthToken.objects.create(user)
    assert clerk.post(url_of(owner), ALL).status_code == 302
    assert clerk.post(url_of(boss), ALL).status_code == 403
    assert [token.user for token in AuthToken.objects.all()] == [boss]
    stranger = member_of_staff("stranger", "delete_authtoken")
    assert stranger.get(url_of(owner)).status_code == 403


def test_a_new_password_in_the_admin_revokes_all(staff: Client, owner: User) -> None:
    AuthToken.objects.create(owner)
    form = {"password1": "a!b2c3d4e5", "password2": "a!b2c3d4e5", "usable_password": "true"}
    answer = staff.post(reverse("admin:auth_user_password_change", args=[owner.pk]), form)
    assert answer.status_code == 302
    owner.refresh_from_db()
    assert owner.check_password("a!b2c3d4e5")
    assert not AuthToken.objects.exists()


def test_of_very_many_the_newest_are_shown_and_all_are_revoked(
    staff: Client, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_SHOWN", 3)
    for _ in range(5):
        AuthToken.objects.create(owner)
    html = staff.get(url_of(owner)).content.decode()
    assert html.count('name="token"') == 3
    assert "Showing the newest 3;" in html
    staff.post(url_of(owner), ALL)
    assert not AuthToken.objects.exists()


def test_a_user_who_is_not_there(staff: Client) -> None:
    assert staff.get("/admin/auth/user/999999/tokens/").status_code == 404


# Creating


def make(client: Client, user: User, lifetime: str = "90") -> str:
    """Create a token and return it as the page shows it, once; "" if it shows none."""
    answer = client.post(url_of(user), {"make": "yes", "lifetime": lifetime})
    return answer.context["made"] if answer.status_code == 200 else ""


def test_a_superuser_makes_a_token_that_is_shown_once(staff: Client, owner: User) -> None:
    text = make(staff, owner)
    (row,) = AuthToken.objects.filter(user=owner)
    assert row.expiry is not None
    assert abs(row.expiry - timezone.now() - timedelta(days=90)) < timedelta(minutes=1)
    answer = Client().get("/v1/chats", headers={"Authorization": f"Bearer {text}"})
    assert answer.status_code == 200
    assert text not in staff.get(url_of(owner)).content.decode()
    told = str(LogEntry.objects.get())
    assert text[:8] in told
    assert text[:9] not in told
    assert make(staff, owner, "0")
    assert AuthToken.objects.filter(user=owner, expiry=None).count() == 1


@pytest.mark.parametrize("lifetime", ["", "1", "-5", "x", "9" * 40])
def test_a_token_has_one_of_the_lifetimes_offered(lifetime: str, staff: Client, owner: User) -> None:
    assert make(staff, owner, lifetime) == ""
    assert not AuthToken.objects.exists()


def test_other_staff_make_tokens_for_themselves_alone(owner: User, boss: User) -> None:
    """With another user's token, staff could read that user's chats without a record."""
    clerk = member_of_staff("clerk", "view_user", "add_authtoken", "view_content")
    for user in (owner, boss):
        assert clerk.post(url_of(user), {"make": "yes", "lifetime": "90"}).status_code == 403
        assert 'name="make"' not in clerk.get(url_of(user)).content.decode()
    assert not AuthToken.objects.exists()
    assert make(clerk, User.objects.get(username="clerk"))
    viewer = member_of_staff("viewer", "view_user")
    own = User.objects.get(username="viewer")
    assert viewer.post(url_of(own), {"make": "yes", "lifetime": "90"}).status_code == 403


def test_who_was_deactivated_gets_none(staff: Client, owner: User) -> None:
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert staff.post(url_of(owner), {"make": "yes", "lifetime": "90"}).status_code == 403
    assert not AuthToken.objects.exists()

"""Every admin page × every kind of user: who may see it, and that no GET changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import NoReverseMatch, reverse

from conversations.models import Chat, ContentView
from tests.admin.rows import make_saying, member_of_staff, model_of
from tests.security.access.traces import everything

pytestmark = [pytest.mark.django_db, pytest.mark.exhaustive]

MODELS = sorted(f"{model._meta.app_label}_{model._meta.model_name}" for model in admin.site._registry)
RIGHTS = ("auth_user", "auth_group")
"""Pages that grant permissions: only superusers can change anything there."""
CHANGED = (
    ("conversations_chat", "delete"),
    ("conversations_message", "delete"),
    ("conversations_allowance", "add"),
)
"""Actions other than viewing that a permission allows."""
GONE, LOGIN, REFUSED, SHOWN = 404, 302, 403, 200


@dataclass(frozen=True)
class Who:
    """A kind of user of the admin, and the models that they may view."""

    name: str
    views: tuple[str, ...] = ()
    is_staff: bool = True
    is_superuser: bool = False


PEOPLE = [
    Who("nobody", is_staff=False),
    Who("user", is_staff=False),
    Who("staff"),
    Who("viewer", tuple(MODELS)),
    Who("reader", tuple(MODELS)),
    Who("only-content"),
    Who("boss", tuple(MODELS), is_superuser=True),
]


@pytest.fixture
def chat(owner: User) -> Chat:
    """A chat that puts a row on every page."""
    made = make_saying(owner, "hello")
    Group.objects.create(name="helpers")
    ContentView.objects.create(viewer=owner, viewer_name="olga", chat_id=made.pk, page="x", object_id="y")
    return made


def browser_of(who: Who) -> Client:
    if who.is_staff and not who.is_superuser:
        content = ["view_content"] if who.name in ("reader", "only-content") else []
        views = [f"view_{name.split('_', 1)[1]}" for name in who.views]
        return member_of_staff(who.name, *views, *content)
    client = Client()
    if who.name != "nobody":
        fields = {"is_staff": who.is_staff, "is_superuser": who.is_superuser}
        client.force_login(User.objects.create(username=who.name, **fields))
    return client


def pages(chat: Chat) -> Iterator[tuple[str, str, str]]:
    """Yield every page: its model, its kind and its address. `kind` is the part of the URL's name after the model."""
    for model in MODELS:
        row = model_of(model)._default_manager.order_by("pk").first()
        assert row is not None, f"there is no {model} to look at"
        for kind in ("changelist", "add"):
            yield model, kind, reverse(f"admin:{model}_{kind}")
        for kind in ("change", "delete", "history"):
            yield model, kind, reverse(f"admin:{model}_{kind}", args=[row.pk])
    user = User.objects.get(username="olga")
    yield "auth_user", "password", reverse("admin:auth_user_password_change", args=[user.pk])
    yield "auth_user", "tokens", reverse("admin:auth_user_tokens", args=[user.pk])
    for kind in ("diff", "progress"):
        yield (
            "memory_conversationbrief",
            kind,
            reverse(f"admin:memory_conversationbrief_{kind}", args=[chat.pk]),
        )
    yield "conversations_chat", "context", reverse("admin:conversations_chat_context", args=[chat.pk])


def expected(who: Who, model: str, kind: str) -> int:
    """Return the status that a page must have for this user."""
    if not who.is_staff and not who.is_superuser:
        return LOGIN
    sees = model in who.views
    if kind == "context":  # this page shows only content
        return SHOWN if sees and who.name in ("reader", "boss") else REFUSED
    if kind in ("changelist", "change", "history", "diff", "progress", "tokens"):
        return SHOWN if sees else REFUSED
    changes = who.is_superuser and (model in RIGHTS or (model, kind) in CHANGED)
    return SHOWN if changes else REFUSED


@pytest.mark.parametrize("who", PEOPLE, ids=lambda who: who.name)
@pytest.mark.promise("P26")
def test_who_gets_which_page(who: Who, chat: Chat) -> None:
    client = browser_of(who)
    before = everything("conversations.ContentView")
    for model, kind, url in pages(chat):
        assert client.get(url).status_code == expected(who, model, kind), url
        if not who.is_superuser and kind != "compare":
            answer = client.post(url, {"post": "yes", "title": "x", "username": "x", "is_superuser": "on"})
            assert answer.status_code in (LOGIN, REFUSED, SHOWN, 405)
    assert everything("conversations.ContentView") == before


@pytest.mark.parametrize("who", PEOPLE, ids=lambda who: who.name)
def test_the_pages_of_no_model(who: Who, chat: Chat) -> None:
    client = browser_of(who)
    inside = SHOWN if who.is_staff or who.is_superuser else LOGIN
    for name in ("index", "password_change", "jsi18n"):
        assert client.get(reverse(f"admin:{name}")).status_code == inside, name
    assert client.get("/admin/nothing/").status_code == (GONE if inside == SHOWN else LOGIN)
    listed = inside if inside == LOGIN or who.views else GONE
    assert client.get(reverse("admin:app_list", args=["conversations"])).status_code == listed
    assert client.get(reverse("admin:login")).status_code in (SHOWN, LOGIN)


def test_no_other_model_has_a_page(staff: Client) -> None:
    """Models outside the matrix have no page: the queue's rows, tokens, login attempts, sessions, logs."""
    for model in apps.get_models():
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        if name not in MODELS:
            with pytest.raises(NoReverseMatch):
                reverse(f"admin:{name}_changelist")
            assert staff.get(f"/admin/{model._meta.app_label}/{model._meta.model_name}/").status_code == GONE


# Permissions


ALL_RIGHTS = (
    "add_user",
    "change_user",
    "delete_user",
    "view_user",
    "add_group",
    "change_group",
    "view_group",
)


def test_whoever_may_change_users_gives_no_rights_and_sets_no_passwords(owner: User, boss: User) -> None:
    group = Group.objects.create(name="clerks")
    client = member_of_staff("clerk", *ALL_RIGHTS)
    clerk = User.objects.get(username="clerk")
    clerk.groups.add(group)
    before = everything()
    content = Permission.objects.get(codename="view_content").pk
    give: dict[str, Any] = {"user_permissions": [content], "permissions": [content], "is_superuser": "on"}
    for user in (clerk, owner, boss):
        for kind, form in (
            ("change", give),
            ("password_change", {"password1": "a!b2c3d4e5", "password2": "a!b2c3d4e5"}),
        ):
            url = reverse(f"admin:auth_user_{kind}", args=[user.pk])
            assert client.post(url, {"username": user.username, **form}).status_code == 403
        assert (
            client.post(reverse("admin:auth_user_delete", args=[user.pk]), {"post": "yes"}).status_code == 403
        )
    url = reverse("admin:auth_group_change", args=[group.pk])
    assert client.post(url, {"name": "clerks", **give}).status_code == 403
    assert everything() == before


def test_nobody_reads_a_password_hash(owner: User) -> None:
    owner.set_password("a!b2c3d4e5")
    owner.save()
    client = member_of_staff("clerk", *ALL_RIGHTS)
    html = client.get(reverse("admin:auth_user_change", args=[owner.pk])).content.decode()
    assert "olga" in html
    assert owner.password not in html
    assert owner.password.rsplit("$", 1)[1] not in html
    asked = client.get(reverse("admin:auth_user_changelist"), {"password__startswith": "pbkdf2"})
    assert asked.status_code == 400

"""Admin pages and contents by permission, and the audit log of views."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db import OperationalError
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils.html import escape

from chatmemory.apps import UNWANTED
from chatmemory.database.ids import new_id
from conversations.accounts.end_users import create_app, create_end_user
from conversations.models import Chat, ContentView, Message
from conversations.webhooks.models import WebhookEvent
from memory.models import Consent, SummaryRevision
from tests.admin.rows import (
    EVIL,
    PAGES,
    begin,
    every_page,
    make_chat,
    make_saying,
    member_of_staff,
    model_of,
    say_elsewhere,
    text_of,
)
from tests.security.access.traces import everything
from tests.support.exhaustive import first_of

pytestmark = pytest.mark.django_db

CANARY = "a heron in the reeds"
VIEWS = [f"view_{page.split('_')[1]}" for page in PAGES]
MODELS = sorted(f"{model._meta.app_label}_{model._meta.model_name}" for model in admin.site._registry)
DAYS = ("memory_usageday", "memory_foldday", "memory_ownermonth")
"""Daily figures have no permission of their own: users with the permission to see memory see them."""
RIGHTS = ("auth_user", "auth_group", "socialaccount_socialaccount")
"""Pages that grant permissions, or show identities: only superusers can change anything there."""
CHANGED = (
    *((f"conversations_{name}", "delete") for name in ("chat", "message", "enduser")),
    *((f"conversations_{name}", "add") for name in ("allowance", "app")),
    ("mfa_authenticator", "delete"),
)
GONE, LOGIN, REFUSED, SHOWN = 404, 302, 403, 200


@dataclass(frozen=True)
class Who:
    """A kind of user of the admin, and whether they may view every model."""

    name: str
    views: bool = False
    is_staff: bool = True
    is_superuser: bool = False


PEOPLE = [
    *(Who("nobody", is_staff=False), Who("user", is_staff=False), Who("staff"), Who("only-content")),
    *(Who("viewer", views=True), Who("reader", views=True), Who("boss", views=True, is_superuser=True)),
]


@pytest.fixture
def saying(owner: User) -> Chat:
    """A chat that puts a row on every page."""
    made = make_saying(owner, CANARY)
    Group.objects.create(name="helpers")
    SocialAccount.objects.create(user=owner, provider="https://id.example.com", uid="u-1")
    Authenticator.objects.create(user=owner, type="totp", data={"secret": CANARY})
    app = create_end_user(create_app("shop"), "ada").app
    Consent.objects.create(user=owner, across="pins", given_by=owner)
    WebhookEvent.objects.create(event_id=new_id(), app=app, chat_id=made.pk, type="chat.deleted", figures={})
    return made


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


# Who gets which page


def browser_of(who: Who) -> Client:
    if who.is_staff and not who.is_superuser:
        content = ["view_content"] if who.name in ("reader", "only-content") else []
        views = [f"view_{name.split('_', 1)[1]}" for name in MODELS if name not in DAYS] if who.views else []
        return member_of_staff(who.name, *views, *content)
    client = Client()
    if who.name != "nobody":
        fields = {"is_staff": who.is_staff, "is_superuser": who.is_superuser}
        client.force_login(User.objects.create(username=who.name, **fields))
    return client


def pages(chat: Chat) -> Iterator[tuple[str, str, str]]:
    """Yield every page: its model, its kind and its address. `kind` is the part of the URL's name after the model."""
    for model in MODELS:
        for kind in ("changelist", "add"):
            yield model, kind, reverse(f"admin:{model}_{kind}")
        row = model_of(model)._default_manager.order_by("pk").first()
        assert row is not None or model in DAYS, f"there is no {model} to look at"
        if row is not None:
            for kind in ("change", "delete", "history"):
                yield model, kind, reverse(f"admin:{model}_{kind}", args=[row.pk])
    version = SummaryRevision.objects.filter(chat=chat)[0]
    yield "auth_user", "password", reverse("admin:auth_user_password_change", args=[chat.owner_id])
    for model, kind, pk in (
        ("auth_user", "tokens", chat.owner_id),
        ("conversations_chat", "trace", chat.pk),
        ("memory_conversationbrief", "edit", chat.pk),
        ("memory_summaryrevision", "restore", version.pk),
    ):
        yield model, kind, reverse(f"admin:{model}_{kind}", args=[pk])


def expected(who: Who, model: str, kind: str) -> int:
    """Return the status that a GET of a page must have for this user."""
    if not who.is_staff and not who.is_superuser:
        return LOGIN
    if kind in ("edit", "restore"):
        return REFUSED if not who.is_superuser else SHOWN if kind == "edit" else 405
    if kind in ("change", "trace") and model in PAGES:  # only content is there
        return SHOWN if who.name in ("reader", "boss") else REFUSED
    if kind in ("changelist", "change", "history", "tokens"):
        return SHOWN if who.views else REFUSED
    changes = who.is_superuser and (model in RIGHTS or (model, kind) in CHANGED)
    return SHOWN if changes else REFUSED


@pytest.mark.exhaustive
@pytest.mark.parametrize("who", PEOPLE, ids=lambda who: who.name)
@pytest.mark.promise("P26")
def test_admin_pages_by_permission(who: Who, saying: Chat) -> None:
    looked = User.objects.get(username="olga")
    ContentView.objects.create(viewer=looked, viewer_name="olga", chat_id=saying.pk, page="x", object_id="y")
    client = browser_of(who)
    before = everything("conversations.ContentView")
    for model, kind, url in pages(saying):
        assert client.get(url).status_code == expected(who, model, kind), url
        if not who.is_superuser:
            answer = client.post(url, {"post": "yes", "title": "x", "username": "x", "is_superuser": "on"})
            assert answer.status_code in (LOGIN, REFUSED, SHOWN, 405)
    inside = SHOWN if who.is_staff or who.is_superuser else LOGIN
    for name in ("index", "password_change", "jsi18n"):
        assert client.get(reverse(f"admin:{name}")).status_code == inside, name
    assert everything("conversations.ContentView") == before


def test_no_other_model_has_a_page(staff: Client) -> None:
    """Models outside the matrix have no page: the queue's rows, tokens, login attempts, sessions, logs."""
    assert not {model._meta.label for model in admin.site._registry} & set(UNWANTED)
    for model in apps.get_models():
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        if name not in MODELS:
            with pytest.raises(NoReverseMatch):
                reverse(f"admin:{name}_changelist")
            assert staff.get(f"/admin/{model._meta.app_label}/{model._meta.model_name}/").status_code == GONE


@pytest.mark.parametrize("page", first_of(PAGES, 2))
def test_messages_are_read_only_in_admin(page: str, staff: Client, saying: Chat) -> None:
    row = model_of(page)._default_manager.all()[0]
    assert staff.get(reverse(f"admin:{page}_add")).status_code == 403
    assert staff.post(reverse(f"admin:{page}_change", args=[row.pk]), {"title": "x"}).status_code == 403
    if page not in ("conversations_chat", "conversations_message"):
        assert staff.post(reverse(f"admin:{page}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
        form = {"action": "delete_selected", "_selected_action": str(row.pk), "post": "yes"}
        staff.post(reverse(f"admin:{page}_changelist"), form)
    assert model_of(page)._default_manager.filter(pk=row.pk).exists()


# Without the permission to read content


@pytest.mark.promise("P26")
def test_lists_hide_texts_and_pages_explain_missing_permission(clerk: Client, saying: Chat) -> None:
    for page in PAGES:
        html = text_of(clerk, f"{page}_changelist")
        assert CANARY not in html, page
        assert str(saying.pk)[:8] in html, page
        for row in model_of(page)._default_manager.all():
            answer = clerk.get(reverse(f"admin:{page}_change", args=[row.pk]))
            assert (answer.status_code, CANARY in answer.content.decode()) == (403, False), page
            assert "conversations.view_content" in answer.content.decode(), page
            assert CANARY not in text_of(clerk, f"{page}_history", row.pk), "it has staff's actions, by ids"
    assert looks() == 0


@pytest.mark.parametrize("page", first_of(PAGES))
def test_titles_are_not_searched(page: str, clerk: Client, saying: Chat) -> None:
    for term, found in ((CANARY, 0), ("olga", 1)):
        response = clerk.get(reverse(f"admin:{page}_changelist"), {"q": term})
        assert min(len(response.context["cl"].result_list), 1) == found
    answer = clerk.get(reverse("admin:autocomplete"), completing(CANARY))
    assert answer.json()["results"] == []


def completing(term: str) -> dict[str, str]:
    return {"app_label": "conversations", "model_name": "message", "field_name": "chat", "term": term}


ORACLES = {
    "conversations_chat": ["title__startswith", "instructions__contains", "metadata__note__contains"],
    "conversations_message": ["content__contains", "line__contains", "chat__title__contains"],
    "conversations_activereply": ["text__contains", "chat__instructions__contains"],
    "memory_conversationbrief": ["global_summary__contains", "state__note__contains"],
    "memory_summaryrevision": ["global_summary__regex", "retained__kept__contains"],
    "memory_contextrecord": ["reply__content__contains", "prompt_hash"],
}


@pytest.mark.parametrize("page", first_of(PAGES, 2))
def test_lists_reject_lookups_on_texts(page: str, clerk: Client, staff: Client, saying: Chat) -> None:
    for browser in (clerk, staff):
        for lookup in ORACLES[page]:
            answer = browser.get(reverse(f"admin:{page}_changelist"), {lookup: "a"})
            assert answer.status_code == 400, lookup


# With it


@pytest.mark.promise("P26")
def test_each_view_is_audited_with_reader_and_owner(reader: Client, saying: Chat) -> None:
    for page in PAGES:
        for row in model_of(page)._default_manager.all():
            assert CANARY in text_of(reader, f"{page}_change", row.pk), page
            assert looks(page=page, object_id=str(row.pk)) == 1, page
    (seen,) = ContentView.objects.filter(page="conversations_chat")
    assert (seen.viewer, seen.viewer_name) == (User.objects.get(username="reader"), "reader")
    assert (seen.owner_id, seen.chat_id) == (saying.owner_id, saying.pk)


def test_a_list_of_titles_is_recorded_once_and_a_list_of_texts_for_each_chat(reader: Client, owner: User) -> None:
    other = User.objects.create_user("rosa")
    for number, whose in enumerate([owner, owner, other]):
        make_chat(whose, title=f"{CANARY} {number}", turns=1)
    assert text_of(reader, "conversations_chat_changelist").count(CANARY) >= 3
    assert looks(object_id="list", count=3, chat_id=None, owner_id=None) == looks() == 1
    text_of(reader, "conversations_chat_changelist", owner__id__exact=owner.pk)
    assert looks(object_id="list", count=2, chat_id=None, owner_id=owner.pk) == 1
    text_of(reader, "conversations_chat_changelist", q=f"{CANARY} 1")
    assert looks(object_id="search", count=1, chat_id__isnull=False) == 1
    text_of(reader, "conversations_message_changelist")
    assert looks(page="conversations_message", object_id="list", count=2, chat_id__isnull=False) == 3
    html = text_of(reader, "conversations_contentview_changelist")
    for words in ("chat: 3 rows of a list", "chat: 1 hit of a search", "several", ">olga<", ">reader<"):
        assert words in html
    assert len(reader.get(reverse("admin:autocomplete"), completing(CANARY)).json()["results"]) == 3
    assert looks(object_id="search") == 2


def test_page_is_refused_when_audit_fails(reader: Client, saying: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr(type(ContentView.objects), "bulk_create", full)
    reader.raise_request_exception = False
    for page in PAGES:
        row = model_of(page)._default_manager.all()[0]
        for url in (reverse(f"admin:{page}_change", args=[row.pk]), reverse(f"admin:{page}_changelist")):
            answer = reader.get(url)
            assert (answer.status_code, CANARY in answer.content.decode()) == (503, False), url


# The record of views


def test_audit_log_is_readable_with_permission_and_read_only(
    reader: Client, clerk: Client, staff: Client, saying: Chat
) -> None:
    text_of(reader, "conversations_chat_change", saying.pk)
    page = "conversations_contentview"
    html = text_of(reader, f"{page}_changelist", chat_id__exact=saying.pk)
    assert reverse("admin:conversations_chat_change", args=[saying.pk]) in html
    assert CANARY not in html
    for query, found in (({"q": "READER"}, 1), ({"q": str(saying.pk)}, 1), ({"q": "olga"}, 0)):
        listed = reader.get(reverse(f"admin:{page}_changelist"), query).context["cl"].result_list
        assert len(listed) == found, query
    (seen,) = ContentView.objects.all()  # reading the record is not recorded
    assert text_of(reader, f"{page}_change", seen.pk)
    assert clerk.get(reverse(f"admin:{page}_changelist")).status_code == 403
    form = {"action": "delete_selected", "_selected_action": str(seen.pk), "post": "yes"}
    staff.post(reverse(f"admin:{page}_changelist"), form)
    for kind in ("change", "delete"):
        url = reverse(f"admin:{page}_{kind}", args=[seen.pk])
        assert staff.post(url, {"post": "yes", "viewer_name": "x"}).status_code == 403
    assert ContentView.objects.get() == seen


def test_audit_log_outlives_deleted_objects(
    reader: Client, staff: Client, saying: Chat, django_capture_on_commit_callbacks: Any
) -> None:
    text_of(reader, "conversations_chat_change", saying.pk)
    staff.post(reverse("admin:conversations_chat_delete", args=[saying.pk]), {"post": "yes"})
    for name in ("reader", "olga"):
        user = User.objects.get(username=name)
        with django_capture_on_commit_callbacks(execute=True):
            staff.post(reverse("admin:auth_user_delete", args=[user.pk]), {"post": "yes"})
    assert not Chat.objects.exists()
    assert looks(viewer=None, viewer_name="reader", chat_id=saying.pk, owner_id=saying.owner_id) == 1
    html = text_of(staff, "conversations_contentview_changelist")
    assert f"user {saying.owner_id}, deleted" in html


# What every page is like


@pytest.fixture
def evil(owner: User) -> Chat:
    chat = make_saying(owner, EVIL)
    say_elsewhere(chat, EVIL)
    return chat


class Forms(HTMLParser):
    """Count the forms of a page. Browsers drop a form nested in another, and its buttons then submit the outer one."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = self.nested = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.depth += tag == "form"
        self.nested += tag == "form" and self.depth > 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "form"


def test_pages_escape_user_text(staff: Client, evil: Chat) -> None:
    shown = dict(every_page(staff))
    assert len(shown) > len(PAGES) * 2
    for page, html in shown.items():
        for tag in ("<script>", "<img src=x", "<svg/onload", "alert(3)&gt;14"):
            assert tag not in html, page
        assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>[^<]*\S", html), page
        assert not re.search(r"<[^>]+\s(style|on\w+)=", html), page
        # Django writes times of a field in the server's zone. Ours are `<time>`s, which a script converts.
        assert not re.search(r"\d{4}, (\d+(:\d\d)? [ap]\.m\.|noon|midnight)", html), page
        forms = Forms()
        forms.feed(html)
        assert (forms.nested, forms.depth) == (0, 0), page
    assert escape(EVIL) in shown[f"memory_conversationbrief {evil.pk}"]


def test_every_page_of_a_chat_shows_the_way_to_it(staff: Client, remembered: Chat) -> None:
    reply = Message.objects.get(chat=remembered, seq=14)
    version = SummaryRevision.objects.get(chat=remembered, version=2)
    ways: dict[str, tuple[Any, list[str]]] = {
        "conversations_chat_change": (remembered.pk, []),
        "conversations_chat_trace": (remembered.pk, ["Trace a fact"]),
        "conversations_message_change": (reply.pk, ["Message 14"]),
        "memory_conversationbrief_change": (remembered.pk, ["Memory"]),
        "memory_conversationbrief_edit": (remembered.pk, ["Memory", "Edit"]),
        "memory_summaryrevision_change": (version.pk, ["Memory", "Version 2"]),
        "memory_contextrecord_change": (reply.pk, ["Prompt sent for message 14"]),
    }
    for name, (pk, way) in ways.items():
        html = text_of(staff, name, pk)
        (trail,) = re.findall(r'<nav class="cm-trail".*?</nav>', html, re.DOTALL)
        steps = re.findall(r"<li[^>]*>(?:<[^>]+>)*([^<]+)<", trail)
        assert steps == ["Home", "Chats", "A trip", *way], name
        assert looks(chat_id=remembered.pk) > 0, name
        ContentView.objects.all().delete()


def test_titles_come_first_in_lists_with_the_id_to_copy(staff: Client, remembered: Chat) -> None:
    begin(remembered, "And eat?", "a key")
    for page in PAGES:
        html = text_of(staff, f"{page}_changelist")
        row = html[html.index("<tbody>") :]
        first = re.search(r'class="field-(\w+)', row)
        assert first is not None, page
        assert first[1] == "title_link", page
        assert f'data-copy="{remembered.pk}"' in row
    Chat.objects.update(title="")
    assert "Untitled chat</a>" in text_of(staff, "conversations_chat_changelist")


# Rights


ALL_RIGHTS = ("add_user", "change_user", "delete_user", "view_user", "add_group", "change_group", "view_group")


def test_change_user_permission_grants_no_rights_or_passwords(owner: User, boss: User) -> None:
    group = Group.objects.create(name="clerks")
    client = member_of_staff("clerk", *ALL_RIGHTS)
    clerk = User.objects.get(username="clerk")
    clerk.groups.add(group)
    before = everything()
    content = Permission.objects.get(codename="view_content").pk
    give: dict[str, Any] = {"user_permissions": [content], "permissions": [content], "is_superuser": "on"}
    password = {"password1": "a!b2c3d4e5", "password2": "a!b2c3d4e5"}
    for user in (clerk, owner, boss):
        for kind, form in (("change", give), ("password_change", password), ("delete", {"post": "yes"})):
            url = reverse(f"admin:auth_user_{kind}", args=[user.pk])
            assert client.post(url, {"username": user.username, **form}).status_code == 403
    url = reverse("admin:auth_group_change", args=[group.pk])
    assert client.post(url, {"name": "clerks", **give}).status_code == 403
    assert everything() == before

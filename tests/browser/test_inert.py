"""What people say does nothing in a browser: no page executes it, loads anything for it, or violates its own policy."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.urls import reverse

from chatmemory.database.ids import new_id
from conversations.accounts.end_users import create_app
from conversations.accounts.models import EndUser
from conversations.models import Across, Chat, ContentView
from conversations.webhooks.models import WebhookEvent
from memory.models import Consent
from tests.admin.rows import add_revision, make_chat, make_saying, model_of, say_elsewhere
from tests.browser.support.chromium import HEAR_VIOLATIONS, visit
from tests.browser.support.corpus import CANARY_HOST, COMPUTED, CORPUS, MARKUP
from tests.browser.support.first_look import Person
from tests.support.exhaustive import effort
from tests.support.live_server import LiveServer

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.nightly]

MODELS = sorted(f"{model._meta.app_label}_{model._meta.model_name}" for model in admin.site._registry)
DAYS = ("memory_usageday", "memory_foldday", "memory_ownermonth")
"""Figures, which hold no text."""
ALL = "\n".join(CORPUS)


def pieces(length: int) -> list[str]:
    """Return the corpus joined into as few texts as fit a column of `length` characters."""
    found = [""]
    for one in CORPUS:
        joined = f"{found[-1]}\n{one}".strip()
        if len(joined) <= length:
            found[-1] = joined
        elif len(one) <= length:
            found.append(one)
    return found


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss")


@pytest.fixture
def context(walking: Any, live: LiveServer) -> Iterator[Any]:
    """A browser that is not signed in."""
    made = walking.new_context()
    made.add_init_script(HEAR_VIOLATIONS)
    yield made
    made.close()


@pytest.fixture
def said(live: LiveServer, boss: User) -> Chat:
    """A chat that contains the whole corpus in every field; short columns are spread over many rows."""
    owner = User.objects.create(username=CORPUS[0], first_name=MARKUP[3][:150], last_name=MARKUP[5])
    for text in pieces(100):
        User.objects.create(username=text, email=text)
        Group.objects.create(name=text)
        say_elsewhere(_with_title(owner, text), text)
        SocialAccount.objects.create(user=owner, provider=text, uid=text)
        Authenticator.objects.create(user=owner, type="webauthn", data={"name": text})
    app = create_app("shop")
    for number, text in enumerate(pieces(200)):
        _with_title(owner, text)
        person = User.objects.create(username=f"shop/{number}")
        EndUser.objects.create(user=person, app=app, external_id=text)
        told = {"app": app, "event_id": new_id(), "chat_id": new_id(), "figures": {"text": text}}
        WebhookEvent.objects.create(**told, type="chat.deleted", end_user=text, error=text)
    Consent.objects.create(user=owner, given_by=owner, across=Across.ALL)
    ContentView.objects.create(viewer_name=CORPUS[0], page=MARKUP[5], object_id=MARKUP[3], chat_id=new_id())
    chat = make_saying(owner, ALL)
    say_elsewhere(chat, MARKUP[0])
    LogEntry.objects.create(
        user=boss,
        content_type=ContentType.objects.get_for_model(Chat),
        object_id=str(chat.pk),
        object_repr=ALL[:200],
        action_flag=CHANGE,
        change_message=ALL,
    )
    return chat


def _with_title(owner: User, title: str) -> Chat:
    chat = make_chat(owner, turns=1, title=title, said=title)
    add_revision(chat, 1, title, through=2)
    return chat


# Control: this test can fail


def rendered(**headers: str) -> dict[str, Any]:
    body = "<!doctype html><title>x</title>" + "\n".join(MARKUP)
    return {"status": 200, "content_type": "text/html; charset=utf-8", "body": body, "headers": headers}


@pytest.mark.promise("P26")
def test_the_content_policy_blocks_the_hostile_corpus(context: Any, live: LiveServer) -> None:
    harmed = visit(context, live.url, "/control", rendered())
    assert len(set(harmed.dialogs)) >= 6, harmed.dialogs
    assert len([url for url in harmed.foreign if CANARY_HOST in url]) >= 3, harmed.foreign
    name = "content-security-policy"
    ours = {name: httpx.get(f"{live.url}/admin/login/").headers[name]}
    policy = visit(context, live.url, "/control", rendered(**ours))
    assert policy.dialogs == []
    assert len(policy.violations) >= 6, policy.violations


# Every page


def read_pages(chat: Chat, rows_opened: int) -> Iterator[str]:
    """Yield every page of the admin that a GET shows; of each model's rows, the newest."""
    for name in ("index", "password_change"):
        yield reverse(f"admin:{name}")
    yield reverse("admin-overview")
    for label in sorted({model.split("_")[0] for model in MODELS}):
        yield reverse("admin:app_list", args=[label])
    for model in MODELS:
        yield reverse(f"admin:{model}_changelist")
        rows = list(model_of(model)._default_manager.order_by("-pk")[:rows_opened])
        assert rows or model in DAYS, f"there is no {model} to look at"
        for row in rows:
            yield reverse(f"admin:{model}_change", args=[row.pk])
    for model in ("auth_user", "auth_group", "conversations_chat"):
        yield reverse(f"admin:{model}_delete", args=[model_of(model)._default_manager.order_by("-pk")[0].pk])
    yield reverse("admin:conversations_chat_history", args=[chat.pk])
    yield reverse("admin:memory_conversationbrief_edit", args=[chat.pk])
    yield reverse("admin:auth_user_add")
    yield reverse("admin:auth_user_password_change", args=[chat.owner_id])
    yield reverse("admin:conversations_chat_changelist") + "?q=%3Cscript%3Ealert(1)%3C/script%3E"
    yield reverse("admin:conversations_message_changelist") + f"?chat__id__exact={chat.pk}"
    yield reverse("admin:conversations_message_changelist") + "?q=%3Cscript%3Ealert(1)%3C/script%3E"
    yield (reverse("admin:conversations_chat_trace", args=[chat.pk]) + "?text=%3Cscript%3Ealert(1)%3C/script%3E")


@pytest.mark.slow
@pytest.mark.promise("P26")
def test_admin_pages_render_hostile_text_inert(context: Any, live: LiveServer, boss: User, said: Chat) -> None:
    client = Client()
    client.force_login(boss)
    session = {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live.url}
    context.add_cookies([session])
    pages = list(read_pages(said, effort(1, 10)))
    visits = [visit(context, live.url, page) for page in pages]
    assert [one.url for one in visits if one.status != 200] == []
    assert [trouble for one in visits for trouble in one.troubles] == []
    assert [one.url for one in visits if COMPUTED in one.text] == []
    shown = {page: one.text for page, one in zip(pages, visits, strict=True)}
    whole = shown[reverse("admin:memory_conversationbrief_change", args=[said.pk])]
    for text in MARKUP:
        assert text in whole  # unchanged


def test_the_api_docs_work_under_the_content_policy(visitor: Person) -> None:
    visitor.expected = ("401",)
    page = visitor.page
    visitor.go("/v1/docs")
    page.locator("a").filter(has_text=re.compile(r"^/v1/models$")).click()
    page.get_by_text("Python", exact=True).click()
    page.get_by_text('"GET", "http').wait_for()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    page.get_by_text("not_authenticated").first.wait_for()
    assert "The model variants you may choose" in page.inner_text("body")

"""Apps and their end users in the admin: who sees and changes what, what is found and filtered, and what both cost."""

import re
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from chatmemory.database.ids import new_id
from conversations.accounts.end_users import create_app, create_end_user
from conversations.accounts.models import App, EndUser
from conversations.admin import access
from conversations.models import Across, Chat, ContentView
from conversations.retention.models import Erasure
from conversations.webhooks.models import WebhookEvent, WebhookState
from memory.across.consent import set_consent
from memory.models import OwnerMonth, Pin
from memory.pins import pins
from memory.usage import daily
from tests.admin.rows import make_chat, member_of_staff, plan_of, queries, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def shop() -> App:
    return create_app("shop")


@pytest.fixture
def ada(shop: App) -> EndUser:
    return create_end_user(shop, "ada")


def chat_of(person: EndUser, title: str = "A trip") -> Chat:
    chat = make_chat(person.user, turns=1, title=title)
    Chat.objects.filter(pk=chat.pk).update(app=person.app)
    return chat


def listed(client: Client, page: str, **query: Any) -> list[str]:
    answer = client.get(reverse(f"admin:{page}_changelist"), query)
    assert answer.status_code == 200
    return [getattr(row, "title", "") or str(row) for row in answer.context["cl"].result_list]


# Apps


def test_a_superuser_makes_an_app_with_its_account(staff: Client) -> None:
    url = reverse("admin:conversations_app_add")
    page = staff.post(url, {"username": "shop"}, follow=True)
    app = App.objects.get()
    assert not app.user.has_usable_password()
    for words in ("was added successfully", reverse("admin:conversations_app_change", args=[app.pk])):
        assert words in page.content.decode()
    wrong = {"shop": "already exists", "a/b": "Enter a valid username", "x" * 151: "at most 150", "": "required"}
    for bad, why in wrong.items():
        assert why in staff.post(url, {"username": bad}).content.decode()
    assert App.objects.count() == 1
    assert User.objects.count() == 2


def test_an_app_leads_to_its_account_its_people_their_chats_and_its_cost(staff: Client, ada: EndUser) -> None:
    chat_of(ada)
    html = text_of(staff, "conversations_app_change", ada.app_id)
    for words in (
        f'{reverse("admin:auth_user_change", args=[ada.app_id])}">shop<',
        f'enduser/?app={ada.app_id}">1 end user<',
        f'chat/?app={ada.app_id}">1 chat<',
        f'ownermonth/?owner__id__exact={ada.app_id}">by month<',
    ):
        assert words in html
    account = text_of(staff, "auth_user_change", ada.app_id)
    assert reverse("admin:auth_user_tokens", args=[ada.app_id]) in account


def test_superusers_set_retention_and_the_required_end_user_of_an_app(staff: Client, shop: App) -> None:
    url = reverse("admin:conversations_app_change", args=[shop.pk])
    assert "Must name end users" in text_of(staff, "conversations_app_change", shop.pk)
    for sent, required in (({}, False), ({"requires_end_user": "on"}, True)):
        staff.post(url, sent)
        assert App.objects.get().requires_end_user is required
    for days, stored in (("30", 30), ("0", 0), ("-1", 0), ("36501", 0), ("", None)):
        staff.post(url, {"retain_days": days})
        assert App.objects.get().retain_days == stored
    clerk = member_of_staff("clerk", "view_app", "change_app")
    assert clerk.post(url, {"retain_days": "1"}).status_code == 403


def test_a_chat_shows_its_app_and_person_and_what_it_shares_by_whose_decision(
    staff: Client, ada: EndUser, owner: User
) -> None:
    assert "<dt>App</dt>" not in text_of(staff, "conversations_chat_change", make_chat(owner).pk)
    staff.post(reverse("admin:conversations_app_change", args=[ada.app_id]), {"across": "pins"})
    assert App.objects.get().across == "pins"
    chat = chat_of(ada)
    Chat.objects.filter(pk=chat.pk).update(project="Garden")
    pins.pin(ada.user, chat.pk, text="Only metric.")
    Pin.objects.update(scope="person", used=3)
    html = text_of(staff, "conversations_chat_change", chat.pk)
    person = reverse("admin:conversations_enduser_change", args=[ada.pk])
    for words in ("<dt>App</dt><dd>shop</dd>", f'{person}">ada</a>', "<dd>pins</dd>", ">Garden</dd>"):
        assert words in html
    assert "in all chats of the person, used 3 times" in html
    set_consent(ada.user, ada.app.user, across=Across.OFF, lifts_pins=False)
    assert "off · decided by shop " in text_of(staff, "conversations_chat_change", chat.pk)
    for words, page in (("shop/ada", "memory_consent_changelist"), ("Garden", "conversations_chat_changelist")):
        assert words in text_of(staff, page)
    reader = member_of_staff("reader", "view_chat", "view_consent")
    assert "Garden" not in text_of(reader, "conversations_chat_changelist")
    assert reader.post(reverse("admin:memory_consent_change", args=[ada.pk]), {"across": "all"}).status_code == 403


def test_people_are_not_among_the_users_and_apps_are_marked(staff: Client, ada: EndUser) -> None:
    html = text_of(staff, "auth_user_changelist")
    assert reverse("admin:conversations_app_change", args=[ada.app_id]) in html
    assert listed(staff, "auth_user") == ["boss", "shop"]
    for page in ("change", "tokens"):
        assert staff.get(reverse(f"admin:auth_user_{page}", args=[ada.pk])).status_code in (302, 404)


# People


def test_people_and_chats_are_filtered_by_app_and_found_by_person(staff: Client, ada: EndUser, owner: User) -> None:
    other = create_app("forum")
    chat_of(ada, "ada of shop")
    for title, name in (("ada of forum", "ada"), ("a/b", "a/b")):
        chat_of(create_end_user(other, name), title)
    make_chat(owner, title="shop/ada in a title")
    apps = {"shop": ["ada of shop"], "forum": ["a/b", "ada of forum"]}
    for app in App.objects.all():
        assert sorted(listed(staff, "conversations_chat", app=app.pk)) == apps[str(app)]
        assert len(listed(staff, "conversations_enduser", app=app.pk)) == len(apps[str(app)])
    assert listed(staff, "conversations_chat", owner__id__exact=ada.pk) == ["ada of shop"]
    assert listed(staff, "conversations_chat", q="shop/ada") == ["ada of shop"]
    assert listed(staff, "conversations_chat", q="forum/a/b") == ["a/b"]
    assert listed(staff, "conversations_chat", q="shop/ada in") == ["shop/ada in a title"]
    for term, found in (("ada", 2), ("shop/ada", 1), ("a/b", 1), ("forum/a/b", 1), ("ad", 0), (" ", 3)):
        assert len(listed(staff, "conversations_enduser", q=term)) == found, term
    for odd in ("x", "-1", "9" * 30):
        listed(staff, "conversations_chat", app=odd)


def test_end_user_is_disabled_enabled_and_erased_with_permission(
    ada: EndUser, django_capture_on_commit_callbacks: Any
) -> None:
    chat_of(ada)
    viewer = member_of_staff("viewer", "view_enduser")
    clerk = member_of_staff("clerk", "view_enduser", "change_enduser")
    eraser = member_of_staff("eraser", "view_enduser", "change_enduser", "delete_enduser")
    url, remove = (reverse(f"admin:conversations_enduser_{page}", args=[ada.pk]) for page in ("change", "delete"))

    def is_active() -> bool:
        return User.objects.get(pk=ada.pk).is_active

    assert 'name="is_active"' not in viewer.get(url).content.decode()
    assert viewer.post(url, {}).status_code == 403
    for form, active in (({}, False), ({"is_active": "on", "external_id": "eve"}, True)):
        assert clerk.post(url, form).status_code == 302
        assert is_active() == active
    assert EndUser.objects.get().external_id == "ada"
    assert clerk.post(remove, {"post": "yes"}).status_code == 403
    assert "Chats: 1" in eraser.get(remove).content.decode()
    with django_capture_on_commit_callbacks(execute=True):
        assert eraser.post(remove, {"post": "yes"}).status_code == 302
        assert (is_active(), Erasure.objects.count()) == (False, 1)
        assert clerk.post(url, {"is_active": "on"}).status_code == 403
    assert not User.objects.filter(username="shop/ada").exists()
    assert not Chat.objects.exists()
    assert {entry.object_repr for entry in LogEntry.objects.all()} == {f"user {ada.pk}"}
    assert App.objects.exists()


def test_ids_are_shown_without_the_permission_to_read(ada: EndUser) -> None:
    chat_of(ada, "A secret trip")
    clerk = member_of_staff("clerk", "view_enduser", "view_app", "view_chat", "view_conversationbrief")
    for page in ("conversations_chat", "conversations_enduser"):
        html = text_of(clerk, f"{page}_changelist", app=ada.app_id)
        assert "ada" in html
        assert "secret" not in html
    assert not ContentView.objects.exists()


# Cost


def test_cost_is_shown_by_month_with_permission(staff: Client, ada: EndUser) -> None:
    month = daily.today().replace(day=1)
    before = (month - timedelta(days=1)).replace(day=1)
    bob = create_end_user(ada.app, "bob")
    for user, cost in ((ada.user, 3), (bob.user, 4), (ada.app.user, 9)):
        fields = {"app": ada.app, "owner": user, "replies": 1, "priced": 1}
        OwnerMonth.objects.create(month=month, cost_usd=Decimal(cost), **fields)
        OwnerMonth.objects.create(month=before, cost_usd=Decimal(80), **fields)
    clerk = member_of_staff("clerk", "view_enduser", "view_app", "view_conversationbrief")
    pages = {
        "conversations_app": ["$9.00"],
        "conversations_enduser": ["$3.00", "$4.00"],
        "memory_ownermonth": ["$3.00", "$4.00", "$9.00", "$80.00", "shop and its end users"],
    }
    for page, shown in pages.items():
        html = text_of(staff, f"{page}_changelist")
        assert all(words in html for words in shown), page
        assert "$" not in text_of(clerk, f"{page}_changelist"), page
    html = text_of(staff, "memory_ownermonth_changelist", owner__id__exact=ada.app_id)
    assert f"?month={before}&amp;app={ada.app_id}" in html
    query = {"app": ada.app_id, "month": f"{month}"}
    answer = staff.get(reverse("admin:memory_ownermonth_changelist"), query)
    assert [row.owner for row in answer.context["cl"].result_list] == [ada.app.user, bob.user, ada.user]
    assert len(listed(staff, "memory_ownermonth", owner__id__exact=ada.pk)) == 2


# What it costs

BIG = re.compile("conversations_chat|conversations_enduser|memory_ownermonth")


@pytest.mark.exhaustive
def test_lists_of_an_app_with_many_people_neither_scan_nor_sort(
    staff: Client, shop: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "LIST_LIMIT", 100)  # so that a plan for many rows needs few of them
    users = User.objects.bulk_create(User(username=f"shop/{number}") for number in range(4_000))
    EndUser.objects.bulk_create(EndUser(user=one, app=shop, external_id=one.username[5:]) for one in users)
    Chat.objects.bulk_create(Chat(owner=one, app=shop, policy="chunked") for one in users * 2)
    month = daily.today().replace(day=1)
    OwnerMonth.objects.bulk_create(OwnerMonth(owner=one, app=shop, month=month) for one in users)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    person = users[2_000]
    of_app = ("conversations_chat", "conversations_enduser", "memory_ownermonth")
    lists: list[tuple[str, dict[str, Any]]] = [
        *((page, {"app": shop.pk}) for page in of_app),
        *((page, {}) for page in of_app[1:]),
        ("conversations_enduser", {"q": "2000"}),
        *(("conversations_chat", query) for query in ({"owner__id__exact": person.pk}, {"q": str(person)})),
    ]
    for page, query in lists:
        sent = queries(partial(text_of, staff, f"{page}_changelist", **query))
        for plan in filter(BIG.search, (plan_of(sql) for sql in sent if sql.startswith("SELECT"))):
            assert not re.search(rf"(Seq Scan on|SCAN) ({BIG.pattern})\b(?! USING)", plan), (page, query)
            assert not ("app" in query and re.search("TEMP B-TREE|Sort Key", plan)), (page, query)


# Webhooks


def test_events_that_were_given_up_are_shown(staff: Client, shop: App) -> None:
    start = reverse("admin:index")
    assert "Events given up" not in staff.get(start).content.decode()
    for state in WebhookState.values:
        WebhookEvent.objects.create(
            event_id=new_id(), app=shop, chat_id=new_id(), type="chat.deleted", figures={}, state=state
        )
    html = staff.get(start).content.decode()
    assert html.count("Events given up") == html.count("Events waiting") + 1  # it needs attention
    assert "state__exact=given+up" in html
    App.objects.update(webhook_url="https://example.com/key", webhook_events="memory.updated chat.deleted")
    html = text_of(staff, "conversations_app_change", shop.pk)
    assert "memory.updated, chat.deleted to example.com" in html
    assert "1 waiting, 1 given up" in html
    assert "/key" not in html
    (given_up,) = WebhookEvent.objects.filter(state="given up")
    assert listed(staff, "conversations_webhookevent", state__exact="given up") == [str(given_up)]
    assert len(listed(staff, "conversations_webhookevent", app=shop.pk)) == 3

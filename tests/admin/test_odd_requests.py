"""Every admin page, requested with every odd query and header: served, redirected or refused, never a 500."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client

from conversations.models import Chat
from tests.admin.rows import begin, make_chat

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

VALUES = {
    "a NUL": "%00",
    "a NUL in a word": "a%00b",
    "nothing": "",
    "a lone surrogate": "%ED%A0%80",
    "no UTF-8": "%FF%FE",
    "half an escape": "%",
    "a huge number": "9" * 40,
    "a negative number": "-1",
    "no number": "1e9999",
    "a quote": quote("'\"--"),
    "brackets": quote("[](){}"),
    "none": "None",
    "a list": quote("1,2,a,%00"),
    "an infinity of days": "99999-99-99",
    "long": "x" * 5000,
}
ID = "019a0000-0000-7000-8000-000000000000"
QUERIES = (
    *("q=%00", "q=a%00b", "q=%FF", "q=%ED%A0%80", "q=" + "x" * 5000, "q=%", "%00=1", "=", "&&&", "a=1&a=%00"),
    *(
        "p=-1",
        "p=" + "9" * 40,
        "p=x",
        "p=%00",
        "o=1",
        "o=-99",
        "o=1.2.-3",
        "o=x",
        "o=%00",
        "all=",
        "e=1",
        "e=%00",
    ),
    *(
        "_to_field=id",
        "_to_field=password",
        "_to_field=owner__password",
        "_to_field=%00",
        "_popup=1",
        "_facets=",
    ),
    *(
        "status__exact=%00",
        "state=%00",
        "policy__exact=%00",
        "role__exact=%00",
        "kind__exact=%00",
        "is_staff__exact=%00",
    ),
    *(
        "owner__password__startswith=a",
        "owner__username__regex=(",
        "id__in=%00",
        "pk__isnull=maybe",
        "id__gte=%00",
    ),
    *(
        "chat__id__exact=%00",
        "chat__id__exact=x",
        f"chat__id__exact={ID}&status__exact=%00",
        f"chat__id__exact={ID}&o=3",
    ),
    *(
        "chat_id__exact=%00",
        "owner__id__exact=" + "9" * 40,
        "seq__gte=%00",
        "seq__gte=-" + "9" * 40,
        "a%5Cb=1",
        "__=1",
    ),
    *(
        "next=//evil.invalid",
        "next=%00",
        "_changelist_filters=%00",
        "version=%00",
        "against=-1",
        "against=" + "9" * 40,
    ),
    *(
        "policy=%00",
        "budget=%00",
        "budget=" + "9" * 40,
        "message=%00",
        "message=%ED%A0%80",
        "since=99999-99-99",
    ),
)
HEADERS = (
    {"Authorization": "Basic YTpi"},
    {"Authorization": "Bearer x"},
    {"Authorization": ""},
    {"Accept": "application/json"},
    {"Accept": "\x00"},
    {"Accept-Language": "x" * 600},
    {"Cookie": "sessionid=%00; csrftoken=é"},
    {"Referer": "http://[::1"},
    {"X-Forwarded-Proto": "gopher"},
    {"X-Request-ID": "\x00"},
    {"X-HTTP-Method-Override": "DELETE"},
    {"Range": "bytes=9-1"},
    {"If-Modified-Since": "never"},
    {"Content-Type": "multipart/form-data"},
)


@pytest.fixture
def browser(staff: Client, remembered: Chat, owner: User) -> Client:
    """A superuser's client, with data on every page."""
    begin(make_chat(owner, turns=1), "Hello", "key-1")
    staff.get(f"/admin/conversations/chat/{remembered.pk}/change/")  # a view, which adds a row, too
    staff.raise_request_exception = False
    return staff


def crawled(browser: Client) -> list[str]:
    """Return the paths of all linked pages, where the page of one row represents those of its kind."""
    found: dict[str, str] = {}
    waiting = ["/admin/", "/admin/login/"]
    while waiting:
        path = waiting.pop()
        kind = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|/\d+/", "<id>", path)
        if kind in found or "logout" in path:
            continue
        found[kind] = path
        answer = browser.get(path)
        if answer.status_code == 200 and not answer.streaming:
            html = answer.content.decode(errors="replace")
            waiting += [link.partition("?")[0].partition("#")[0] for link in links(html, path)]
    return list(found.values())


def links(html: str, path: str) -> Iterator[str]:
    for link in re.findall(r'href="([^"]*)"', html):
        if link.startswith("/admin/"):
            yield link
        elif re.match(r"[\w-]+/", link):
            yield path + link


def refuses_or_serves(status: int) -> bool:
    return status < 500 or status == 503


def test_every_page_with_every_odd_query(browser: Client) -> None:
    pages = crawled(browser)
    assert len(pages) > 30
    failed = []
    for path, query in product(pages, QUERIES):
        if not refuses_or_serves(browser.get(f"{path}?{query}").status_code):
            failed.append(f"{path}?{query[:60]}")
    assert failed == []


def test_every_list_by_every_column(browser: Client) -> None:
    asked = [
        f"/admin/{model._meta.app_label}/{model._meta.model_name}/?{narrowed}{field.name}__exact=%00"
        for model in admin.site._registry
        for field in model._meta.concrete_fields
        for narrowed in ("", f"chat__id__exact={ID}&")
    ]
    assert [url for url in asked if not refuses_or_serves(browser.get(url).status_code)] == []


@pytest.mark.parametrize("value", VALUES)
def test_every_path_with_an_odd_id(value: str, browser: Client) -> None:
    for model in admin.site._registry:
        for page in ("change", "history", "delete"):
            path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/{VALUES[value]}/{page}/"
            assert refuses_or_serves(browser.get(path).status_code), path


def test_every_page_with_every_odd_header(browser: Client) -> None:
    failed = [
        f"{path} with {headers}"
        for path, headers in product(crawled(browser), HEADERS)
        if not refuses_or_serves(browser.get(path, headers=headers).status_code)
    ]
    assert failed == []


def test_an_odd_sign_in(browser: Client) -> None:
    for name, value in product(("username", "password", "next"), VALUES.values()):
        body = f"username=boss&password=x&{name}={value}"
        answer = browser.post("/admin/login/", data=body, content_type="application/x-www-form-urlencoded")
        assert refuses_or_serves(answer.status_code), f"{name}={value[:40]}"

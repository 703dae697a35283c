"""Every admin page, requested with every odd query: served, redirected or refused, never a 500."""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client

from conversations.models import Chat
from tests.admin.rows import begin, make_chat

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

VALUES = (
    *("%00", "a%00b", "", "%ED%A0%80", "%FF%FE", "%", "9" * 40, "-1", "1e9999", quote("'\"--")),
    *(quote("[](){}"), "None", quote("1,2,a,%00"), "99999-99-99", "x" * 5000),
)
"""NULs, lone surrogates, no UTF-8, numbers out of range, and other texts that are no id."""
ID = "019a0000-0000-7000-8000-000000000000"
QUERIES = [
    *"q=%00 q=a%00b q=%FF q=%ED%A0%80 q=% %00=1 = &&& a=1&a=%00 a%5Cb=1 __=1 next=//evil.invalid next=%00".split(),
    *"p=-1 p=x p=%00 o=1 o=-99 o=1.2.-3 o=x o=%00 all= e=1 e=%00 _popup=1 _facets= _changelist_filters=%00".split(),
    *"_to_field=id _to_field=password _to_field=owner__password _to_field=%00 id__in=%00 id__gte=%00".split(),
    *"status__exact=%00 state=%00 policy__exact=%00 role__exact=%00 kind__exact=%00 is_staff__exact=%00".split(),
    *"owner__password__startswith=a owner__username__regex=( pk__isnull=maybe chat_id__exact=%00".split(),
    *"chat__id__exact=%00 chat__id__exact=x seq__gte=%00 version=%00 against=-1 policy=%00 budget=%00".split(),
    *"message=%00 message=%ED%A0%80 since=99999-99-99".split(),
    *(f"chat__id__exact={ID}&status__exact=%00", f"chat__id__exact={ID}&o=3", "q=" + "x" * 5000),
    *(f"{name}={'9' * 40}" for name in ("p", "owner__id__exact", "at", "from", "against")),
    "seq__gte=-" + "9" * 40,
]


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


def failures(browser: Client, urls: Iterable[str]) -> list[str]:
    """Those of `urls` that are neither served, redirected nor refused."""
    statuses = {url: browser.get(url).status_code for url in urls}
    return [url[:120] for url, status in statuses.items() if status >= 500 and status != 503]


def test_every_page_with_every_odd_query(browser: Client) -> None:
    pages = crawled(browser)
    assert len(pages) > 30
    assert failures(browser, (f"{path}?{query}" for path, query in product(pages, QUERIES))) == []


def test_every_path_with_an_odd_id(browser: Client) -> None:
    urls = [
        f"/admin/{model._meta.app_label}/{model._meta.model_name}/{value}/{page}/"
        for model, value, page in product(admin.site._registry, VALUES, ("change", "history", "delete"))
    ]
    assert failures(browser, urls) == []


def test_an_odd_sign_in(browser: Client) -> None:
    for name, value in product(("username", "password", "next"), VALUES):
        body = f"username=boss&password=x&{name}={value}"
        answer = browser.post("/admin/login/", data=body, content_type="application/x-www-form-urlencoded")
        assert answer.status_code < 500 or answer.status_code == 503, f"{name}={value[:40]}"

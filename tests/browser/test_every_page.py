"""Every kind of page that links lead staff to: no serious finding of axe, and none wider than the window."""

import re
from urllib.parse import urlsplit

import pytest

from tests.browser.support.first_look import Person

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.nightly]

LINKS = "[...document.links].map(one => one.href)"
ELSEWHERE = re.compile(r"/(?:logout|jsi18n|static|v1/schema|readyz|healthz)|\.(?:json|svg|png|md)$")
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=/)\d+(?=/)")


def kind_of(url: str) -> str:
    """Return a key that is the same for pages of one kind, whatever their object or filters."""
    return ID.sub("*", urlsplit(url).path)


def test_every_linked_page_answers_200(anywhere: Person) -> None:
    look = anywhere.look
    asked = {"chat_id": look.chat_id, "message": "When is our concert?", "stream": False}
    look.api.post("/v1/message", json=asked).raise_for_status()
    anywhere.go("/admin/conversations/app/add/")
    anywhere.page.fill("#id_username", "shop")
    anywhere.page.click("[name=_save]")
    todo, seen, wrong = ["/", "/admin/", "/v1/docs"], set[str](), list[str]()
    while todo:
        path = todo.pop(0)
        if kind_of(path) in seen:
            continue
        seen.add(kind_of(path))
        anywhere.go(path)
        anywhere.page.wait_for_load_state("networkidle")
        wide, window = anywhere.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        wrong += [f"{path}: {one}" for one in anywhere.axe()] + [f"{path} is too wide"] * (wide > window)
        led = (one.removeprefix(look.url).split("#")[0] for one in anywhere.page.evaluate(LINKS))
        todo += [one for one in led if one.startswith("/") and not ELSEWHERE.search(urlsplit(one).path)]
    print(f"\n{len(seen)} kinds of pages")
    assert "\n".join(wrong) == ""
    changes = {f"/admin/conversations/{name}/*/change/" for name in ("chat", "app")}
    assert {"/playground/", *changes} <= seen
    assert len(seen) > 35

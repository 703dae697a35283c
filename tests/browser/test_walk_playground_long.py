"""The playground with much data: hundreds of chats, long titles, thousands of turns; and with none at all."""

import json
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.browser.support.first_look import FirstLook, Person, manage, person
from tests.browser.support.playground import ask, come_in, enter

pytestmark = [pytest.mark.browser, pytest.mark.nightly]
CHATS = 300
PAGE = 50
TURNS = 5000
MOST_ELEMENTS = 160
LONGEST_TITLE = "Eine sehr lange Überschrift " * 7
ENDLESS_TITLE = "x" * 200


@pytest.fixture
def token(first_look: FirstLook) -> str:
    """The token of a user without chats."""
    name = f"user-{uuid4().hex[:8]}"
    manage(
        first_look,
        "shell",
        "-c",
        f"from django.contrib.auth.models import User; User.objects.create_user({name!r})",
    )
    return manage(first_look, "create_token", name).split()[-1]


def open_as(person: Person, token: str) -> Any:
    person.go(f"/playground/#token={token}")
    come_in(person.page)
    person.page.wait_for_selector('body[data-view="chat"] #variant option', state="attached")
    return person.page


def test_staff_without_chats_see_whose_chats_these_are(keeper: Person) -> None:
    page = keeper.page
    keeper.go("/playground/")
    page.get_by_text("Only your own chats are listed here.").wait_for()
    assert keeper.axe() == []
    page.get_by_role("link", name="All chats are in the admin").click()
    page.wait_for_url("**/admin/conversations/chat/")
    page.get_by_role("link", name="A journey to Ljubljana").wait_for()


def test_hundreds_of_chats_are_paged(walking: Any, first_look: FirstLook, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=first_look.url, headers=headers, trust_env=False) as api:
        for n in range(CHATS):
            title = {CHATS - 1: LONGEST_TITLE, CHATS - 2: ENDLESS_TITLE}.get(n, f"Chat {n}")
            api.post("/v1/chats", json={"title": title}).raise_for_status()
    with person(walking, first_look, phone=True) as somebody:
        page = open_as(somebody, token)
        page.get_by_role("button", name="Chats", exact=True).click()
        rows = page.locator(".cm-chat")
        for shown in range(PAGE, CHATS, PAGE):
            assert rows.count() == shown
            page.get_by_role("button", name="More chats").click()
            rows.nth(shown).wait_for()
            assert rows.nth(shown).evaluate("one => one === document.activeElement")
        assert rows.count() == CHATS
        assert page.get_by_role("button", name="More chats").count() == 0
        assert len(set(rows.locator(".cm-chat-title").all_inner_texts())) == CHATS
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert somebody.axe() == []

        rows.last.click()
        page.locator("#title", has_text="Chat 0").wait_for()
        ask(page, "Hello.")
        rows.last.locator(".cm-chat-about", has_text="2 messages").wait_for(state="attached")
        assert rows.count() == CHATS  # pages loaded earlier stay

        page.get_by_role("button", name="Chats", exact=True).click()
        rows.first.click()
        page.locator("#title", has_text="Eine sehr lange").wait_for()
        assert page.get_attribute("#title", "title") == LONGEST_TITLE.strip()
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert somebody.axe() == []
        assert somebody.troubles() == []


def test_a_long_chat_opens_at_its_end_and_pages_back(visitor: Person, first_look: FirstLook) -> None:
    said = [
        {"role": role, "content": f"{role} says number {n} of a long story."}
        for n in range(TURNS)
        for role in ("user", "assistant")
    ]
    file = first_look.folder / "long.json"
    file.write_text(json.dumps({"messages": said}))
    manage(first_look, "import_chat", str(file), "--user", "demo")
    chat_id = first_look.api.get("/v1/chats").json()["results"][0]["id"]

    page = enter(visitor)
    fetched: list[str] = []
    page.on("request", lambda sent: fetched.append(sent.url) if "/messages?" in sent.url else None)
    began = page.evaluate("performance.now()")
    page.locator(f'.cm-chat[data-id="{chat_id}"]').click()
    page.locator(".cm-reply .cm-body", has_text=f"number {TURNS - 1} ").wait_for()
    print(f"\na chat of {TURNS:,} turns opened in {page.evaluate('performance.now()') - began:.0f} ms")
    assert len(fetched) <= 2  # the newest page, and the one above if the window is tall

    numbers = page.locator(".cm-user .cm-body")
    for pages in range(1, 8):
        before = len(fetched)
        while len(fetched) == before:
            page.evaluate("document.getElementById('scroller').scrollBy(0, -1500)")
            page.wait_for_timeout(50)
        assert page.locator(".cm-message").count() <= MOST_ELEMENTS, pages
    first, last = numbers.first.inner_text(), numbers.last.inner_text()
    assert int(first.split()[3]) < TURNS - 150
    assert int(last.split()[3]) < TURNS - 1  # the newest are no longer in the document
    page.get_by_role("button", name="↓ Newest").click()
    page.locator(".cm-reply .cm-body", has_text=f"number {TURNS - 1} ").wait_for()

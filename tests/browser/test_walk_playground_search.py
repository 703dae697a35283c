"""Search in the playground: from a remembered word to the place where it was said."""

import json
from typing import Any

import pytest

from tests.browser.support.first_look import FirstLook, Person, manage
from tests.browser.support.playground import enter, make_chat

pytestmark = [pytest.mark.browser, pytest.mark.nightly]
TURNS = 700
WORDS = {0: "zanzibar", 350: "marzipan", TURNS - 1: "gingerbread"}
IN_SIGHT = """
one => {
  const [box, room] = [one.getBoundingClientRect(), document.getElementById("scroller").getBoundingClientRect()];
  return box.top >= room.top && box.top < room.bottom && document.scrollingElement.scrollTop === 0;
}
"""


@pytest.fixture(scope="module")
def long_chat(first_look: FirstLook) -> str:
    """A chat most of which was said long ago."""
    said = [
        {"role": role, "content": f"{role.title()} has {WORDS.get(n, 'bread')} number {n} 😀."}
        for n in range(TURNS)
        for role in ("user", "assistant")
    ]
    file = first_look.folder / "search.json"
    file.write_text(json.dumps({"title": "The bakery", "messages": said}))
    manage(first_look, "import_chat", str(file), "--user", "demo")
    return str(first_look.api.get("/v1/chats").json()["results"][0]["id"])


def look_for(page: Any, words: str) -> Any:
    """Search for `words` by keyboard. Returns the messages found."""
    page.keyboard.press("Control+k")
    page.keyboard.type(words)
    return page.locator("#hits button")


def test_search_leads_to_an_old_message(visitor: Person, first_look: FirstLook, long_chat: str) -> None:
    page = enter(visitor, first_look.chat_id)
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url))
    hits = look_for(page, "marzipan number")
    hits.nth(1).wait_for()
    page.get_by_role("heading", name="Messages").first.wait_for()
    assert page.locator("#announced").inner_text().endswith("messages found.")
    mine = page.get_by_role("button", name="The bakery User has marzipan number 350 😀. You")
    assert mine.locator("mark").all_inner_texts() == ["marzipan", "number"]
    assert visitor.axe() == []
    assert not [one for one in asked if "marzipan" in one and "/v1/search" in one]  # it is in no log

    mine.click()
    found = page.locator(".cm-found")
    found.wait_for()
    assert found.locator(".cm-body").inner_text() == "User has marzipan number 350 😀."
    assert found.evaluate(IN_SIGHT)
    assert found.evaluate("one => one === document.activeElement")
    assert page.inner_text("h1:visible") == "The bakery"
    assert page.locator("#note").inner_text() == ""
    assert visitor.axe() == []

    page.get_by_role("button", name="↓ Newest").click()
    page.locator(".cm-user .cm-body", has_text="gingerbread").wait_for()
    page.get_by_role("button", name="The bakery Assistant has marzipan number 350 😀. Reply").click()
    page.locator(".cm-found.cm-reply:focus").wait_for()
    assert page.locator(".cm-found").count() == 1
    assert found.evaluate(IN_SIGHT)


def test_a_distant_result_is_shown_by_itself(visitor: Person, long_chat: str) -> None:
    page = enter(visitor, long_chat)
    look_for(page, "zanzibar").first.wait_for()
    page.get_by_role("button", name="The bakery User has zanzibar").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("further up than what is loaded").wait_for()
    assert dialog.get_by_role("heading").first.inner_text() == "The bakery"
    assert dialog.locator(".cm-body").inner_text() == "User has zanzibar number 0 😀."
    assert visitor.axe() == []
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert page.locator(".cm-found").count() == 0


def test_arrow_keys_and_enter_walk_the_results(visitor: Person, first_look: FirstLook) -> None:
    kept = make_chat(visitor, ("My umbrella is violet.", ""), title="Violet things")
    page = enter(visitor, first_look.chat_id)
    look_for(page, "violet").first.wait_for()
    page.locator("#chats button").nth(0).wait_for()
    assert page.locator("#chats button").count() == 1
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.id") == kept
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('#hits') !== null")
    for _ in range(2):
        page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator(".cm-found", has_text="violet").wait_for()
    assert page.inner_text("h1:visible") == "Violet things"


def test_empty_failed_and_short_searches_are_explained(visitor: Person, first_look: FirstLook) -> None:
    visitor.expected = ("ERR_FAILED",)
    page = enter(visitor, first_look.chat_id)
    look_for(page, "qwertzuiop")
    page.get_by_text("Nothing found. Messages are found by whole words, chats by any part of their title.").wait_for()
    assert page.locator("#found").is_hidden()
    page.fill("#search", "<img src=x onerror=alert(1)>")
    page.locator("#found").wait_for(state="hidden")

    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url) if "/v1/search" in sent.url else None)
    page.fill("#search", "j")
    page.locator("#chats .cm-chat").first.wait_for()
    assert asked == []

    page.route("**/v1/search", lambda route: route.abort())
    page.fill("#search", "concert")
    page.locator("#found-told", has_text="The server cannot be reached.").wait_for()
    page.unroute("**/v1/search")
    page.fill("#search", "our concert")
    page.locator("#hits button").first.wait_for()
    assert page.locator("#found-told").inner_text() == ""
    page.fill("#search", "")
    page.locator("#found").wait_for(state="hidden")

"""The first minute after `make run`, on the page that is printed first."""

import re

import pytest

from tests.browser.support.first_look import FirstLook, Person
from tests.browser.support.playground import COMPLETE, enter, newest

pytestmark = [pytest.mark.browser, pytest.mark.nightly]


def test_the_first_minute(visitor: Person, first_look: FirstLook) -> None:
    page = enter(visitor, first_look.chat_id)

    # The page says how long the chat is, and how little of it is sent.
    page.locator("#context-said-told", has_text="tokens said →").wait_for()
    said, sent = (
        int(number.replace(",", "")) for number in re.findall(r"[\d,]+", page.inner_text("#context-said-told"))[:2]
    )
    assert said > 6000
    assert sent < said / 3
    assert "−" in page.inner_text("#context-said-told")

    # The summary reads well, and says which summarizer wrote it.
    assert "Marta de Wilde conducts Kaleido Strings" in page.inner_text("#summary")
    page.get_by_text("Earlier versions").click()
    assert page.get_by_text("written by hand for the sample").count() == 2

    # The answer uses what was said three months earlier, and links to that message.
    page.get_by_role("button", name="When and where is our concert?").click()
    page.wait_for_selector(COMPLETE)
    assert "Friday 10 July, 19:00" in newest(page)
    page.get_by_role("heading", name="Prompt sent for message 98").wait_for()
    recalled = page.locator('#sections [data-kind="recall"]')
    recalled.locator("summary").click()
    assert re.search(r"\[[^\]]+\]\n(User|Assistant): ", recalled.inner_text())
    page.get_by_text("of the budget stayed free.").wait_for()
    assert not page.get_by_text("are reserved for earlier messages").is_visible()
    page.get_by_role("button", name="Back to now").click()
    page.get_by_text("are reserved for earlier messages").wait_for()

    # The fold visibly changes the summary.
    assert first_look.demo_token not in first_look.log()
    page.get_by_role("button", name="Update memory").click()
    landed = page.locator(".cm-landed")
    landed.wait_for()
    assert "merged into the summary" in landed.inner_text()
    assert "peg of the cello" in " ".join(page.locator("#summary ins").all_inner_texts())
    assert visitor.axe() == []


def test_the_threshold_of_updates_can_be_lowered(visitor: Person, first_look: FirstLook) -> None:
    chat_id = str(first_look.api.post("/v1/chats", json={"title": "Short"}).json()["id"])
    for number in range(6):
        text = f"Note {number}: " + "the harbour keeps its lamps lit for boats that come late. " * 8
        body = {"chat_id": chat_id, "message": text, "stream": False}
        first_look.api.post("/v1/message", json=body).raise_for_status()
    assert first_look.api.get(f"/v1/chats/{chat_id}/brief").json()["version"] == 0
    page = enter(visitor, chat_id)
    page.get_by_label("Update after").select_option("500")
    page.locator("#pending-told", has_text="of 500 tokens").wait_for()
    page.locator("#summary-about", has_text="Version 1").wait_for(timeout=60_000)
    chat = first_look.api.get(f"/v1/chats/{chat_id}").json()
    assert chat["options"] == {"threshold": 500}
    page.get_by_label("Update after").select_option("0")
    page.locator("#pending-told", has_text="of 6,000 tokens").wait_for()
    assert first_look.api.get(f"/v1/chats/{chat_id}").json()["options"] == {}
    assert visitor.axe() == []

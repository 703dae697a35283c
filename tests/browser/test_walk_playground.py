"""The playground as `quickstart` opens it, used by someone new to it. The built-in model answers."""

import re
from typing import Any

import pytest

from tests.browser.support.first_look import FirstLook, Person, person
from tests.browser.support.playground import COMPLETE, ask, enter, make_chat, say

pytestmark = pytest.mark.browser


def test_the_memory_panel_shows_a_fold_when_it_is_published(visitor: Person, first_look: FirstLook) -> None:
    page = enter(visitor, first_look.chat_id)
    ask(page, "Who plays the double bass?")
    page.click("#fold")
    landed = page.locator(".cm-landed")
    landed.wait_for()
    assert "merged into the summary" in landed.inner_text()
    assert page.locator("#announced").inner_text() == landed.inner_text()
    assert page.locator("#summary del").count() > 0
    assert page.locator("#summary .cm-diff").inner_text()
    page.locator("#summary").get_by_role("button", name="Show summary").click()
    assert page.locator("#summary ins, #summary del").count() == 0
    say(page, "And the cello?")
    told = page.locator(".cm-note", has_text=re.compile(r"^Memory updated: \d+ turns?, [\d,]+ → [\d,]+ tokens"))
    told.get_by_role("button", name="Show").click()
    page.locator("#summary .cm-diff").wait_for()
    page.wait_for_selector(COMPLETE)

    page.get_by_text("Earlier versions").click()
    page.get_by_role("button", name="Restore version 1").click()
    assert "newer messages are summarized again when due" in page.locator("#dialog-told").inner_text()
    assert page.get_by_label("Keep this version").is_checked()
    assert visitor.axe() == []
    page.get_by_role("button", name="Restore", exact=True).click()
    page.get_by_text("Restored from an older version").first.wait_for()
    page.get_by_text("current, updates paused").wait_for()
    assert "Updates are paused" in page.locator("#fold-told").inner_text()
    assert visitor.axe() == []
    page.click("#pause")
    page.get_by_role("button", name="Pause updates").wait_for()
    assert first_look.api.get(f"/v1/chats/{first_look.chat_id}/brief").json()["paused"] is None


def test_changing_the_policy_asks_first_and_a_cleared_summary_can_be_restored(
    visitor: Person, first_look: FirstLook
) -> None:
    page = enter(visitor, first_look.chat_id)
    path = f"/v1/chats/{first_look.chat_id}"
    page.select_option("#policy", "interval")
    told = page.locator("#dialog-told")
    told.wait_for()
    assert re.search(r"Rebuilds \d+ turns, about \d+ summarizer calls?\.", told.inner_text())
    assert "Manual edits are overwritten." in told.inner_text()
    assert visitor.axe() == []
    page.get_by_role("button", name="Cancel").click()
    assert page.locator("#policy").input_value() == "chunked"
    assert first_look.api.get(path).json()["policy"] == "chunked"

    before = first_look.api.get(f"{path}/brief").json()
    page.click("#clear")
    assert "can still be recalled" in told.inner_text()
    page.get_by_role("button", name="Clear", exact=True).click()
    page.locator(".cm-landed", has_text="Cleared.").wait_for()
    page.locator("#clear").wait_for(state="hidden")
    page.locator("#summary").get_by_role("button", name="Show summary").click()
    page.locator("#summary", has_text="The summary is empty.").wait_for()
    assert visitor.axe() == []
    page.get_by_text("Earlier versions").click()
    page.get_by_role("button", name=f"Restore version {before['version']}").click()
    page.get_by_role("button", name="Restore", exact=True).click()
    page.get_by_text("current, updates paused").wait_for()
    assert first_look.api.get(f"{path}/brief").json()["brief"] == before["brief"]

    page.select_option("#policy", "interval")
    page.get_by_role("button", name="Rebuild", exact=True).click()
    visitor.wait_for(lambda: first_look.api.get(f"{path}/brief").json()["policy"] == "interval")
    page.locator("#note", has_text="Rebuilding").wait_for(state="detached")
    page.locator("#summary", has_text="Replaced: made by another policy.").wait_for()
    headings = page.locator("#summary h4").all_inner_texts()
    assert [heading.partition(": ")[2] for heading in headings] == [
        "Periodic summary (interval)",
        "Rolling summary (chunked)",
    ]
    assert page.locator("#summary ins, #summary del").count() == 0


def test_notes_and_facts_are_shown_as_lists_and_tables(visitor: Person, first_look: FirstLook) -> None:
    page = enter(visitor, first_look.chat_id)
    for policy, shape in (("card", "ul > li"), ("hierarchical", "dl dt")):
        page.select_option("#policy", policy)
        page.get_by_role("button", name="Rebuild", exact=True).click()
        page.locator("#note", has_text="Rebuilding").wait_for(state="detached")
        page.locator("#summary").get_by_role("button", name="Show summary").click()
        page.locator(f"#summary {shape}").first.wait_for()
        assert "{" not in page.inner_text("#summary")
        assert visitor.axe() == []
    assert page.evaluate("document.scrollingElement.scrollHeight === innerHeight"), "the page itself scrolls"


def test_a_first_message_that_is_sent_by_a_double_click_is_one_chat(visitor: Person) -> None:
    page, sent = enter(visitor), list[Any]()
    page.on("request", lambda one: sent.append(one) if one.url.endswith("/v1/message/first") else None)
    chats = visitor.look.api.get("/v1/chats").json()["results"]
    page.fill("#message", "Sent by a double click.")
    page.locator("#send").dblclick()
    page.wait_for_selector(COMPLETE)
    assert [bool(one.headers.get("idempotency-key")) for one in sent] == [True]
    assert len(visitor.look.api.get("/v1/chats").json()["results"]) == len(chats) + 1


def test_a_new_chat_gets_its_policy_and_its_title(visitor: Person) -> None:
    page = enter(visitor)
    page.get_by_role("heading", name="Start chatting and watch the memory build").wait_for()
    assert visitor.axe() == []
    page.select_option("#policy", "interval")
    ask(page, "My order AB-1234 has not arrived.\nWhat now?")
    page.locator("#title", has_text="My order").wait_for()
    chat = visitor.look.api.get(f"/v1/chats/{page.url.rpartition('=')[2]}").json()
    assert (chat["title"], chat["policy"]) == ("My order AB-1234 has not arrived.", "interval")

    page.select_option("#policy", "card")
    path = f"/v1/chats/{chat['id']}"
    visitor.wait_for(lambda: visitor.look.api.get(path).json()["policy"] == "card")
    page.locator("#note", has_text="Rebuilding").wait_for(state="detached")
    assert visitor.look.api.get(f"/v1/chats/{chat['id']}").json()["policy"] == "card"
    page.click("#rename")
    page.fill("#dialog-field", "The order")
    page.press("#dialog-field", "Enter")
    page.get_by_role("button", name="The order").wait_for()
    page.click("#delete")
    assert visitor.axe() == []
    page.locator("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("heading", name="New chat").wait_for()
    assert visitor.look.api.get(f"/v1/chats/{chat['id']}").status_code == 404


def test_a_temporary_chat_is_in_no_list_and_another_is_pinned(visitor: Person) -> None:
    page = enter(visitor)
    page.get_by_label("Temporary chat").check()
    ask(page, "Between us: the harbour is closed.")
    page.get_by_role("heading", name="Temporary chat").wait_for()
    chat = visitor.look.api.get(f"/v1/chats/{page.url.rpartition('=')[2]}").json()
    assert (chat["temporary"], chat["title"]) == (True, "")
    assert page.locator(f"#chats [data-id='{chat['id']}']").count() == 0
    assert page.locator("#pin").is_hidden()

    page.click("#new")
    assert not page.get_by_label("Temporary chat").is_checked()
    ask(page, "Keep this, please.")
    page.locator("#title", has_text="Keep this").wait_for()
    page.get_by_role("button", name="Pin chat", exact=True).click()
    page.get_by_role("button", name="Unpin chat").wait_for()
    chat = visitor.look.api.get(f"/v1/chats/{page.url.rpartition('=')[2]}").json()
    assert (chat["temporary"], chat["pinned"]) == (False, True)


def test_a_message_is_edited_and_another_is_forgotten(visitor: Person) -> None:
    chat_id = make_chat(visitor, ("My locker is number 17.", ""), ("My bike is green.", ""))
    page = enter(visitor, chat_id)
    first = page.locator(".cm-user").first
    first.hover()
    first.get_by_role("button", name="Edit").click()
    assert visitor.axe() == []
    page.fill("#dialog-field", "My locker is number 71.")
    page.get_by_role("button", name="Save").click()
    page.locator(".cm-user .cm-body", has_text="number 71").wait_for()

    second = page.locator(".cm-user").nth(1)
    second.hover()
    second.get_by_role("button", name="Delete").click()
    page.keyboard.press("Escape")
    assert second.locator(".cm-gone").count() == 0
    second.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.locator(".cm-gone").wait_for()
    said = visitor.look.api.get(f"/v1/chats/{chat_id}/messages").json()["results"]
    assert [one["content"] for one in said if one["role"] == "user"] == ["My locker is number 71.", ""]


def test_playground_works_on_a_phone(walking: Any, first_look: FirstLook) -> None:
    with person(walking, first_look, phone=True, dark=True) as somebody:
        page = enter(somebody, first_look.chat_id)
        for shown in (".cm-brand", ".cm-tools-top a"):
            assert page.locator(shown).is_visible()
        assert page.locator(".cm-head").bounding_box()["height"] < 60
        menu = page.get_by_role("button", name="other tools of this chat")
        menu.click()
        assert "merged into one summary" in page.get_by_role("combobox", name="Memory").inner_text()
        assert somebody.axe() == []
        page.get_by_role("button", name="Rename").click()
        page.get_by_role("button", name="Cancel").click()
        somebody.wait_for(lambda: menu.evaluate("one => one === document.activeElement"))  # once the dialog is closed
        assert page.locator("#delete").is_hidden()
        ask(page, "What does the grant want?")
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert somebody.axe() == []
        page.get_by_role("button", name="Memory", exact=True).click()
        page.locator("#sections .cm-section").first.wait_for()
        page.locator("#sections summary").first.click()
        assert page.locator("#sections .cm-sent").first.inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert somebody.axe() == []
        page.get_by_role("button", name="Chats", exact=True).click()
        page.locator(".cm-chat").first.click()
        page.locator("#message").wait_for()
        assert somebody.troubles() == []


def test_a_very_long_message_is_loaded_on_demand(visitor: Person) -> None:
    longest = "x" * 200_000
    chat_id = make_chat(visitor, (longest, ""))
    page = enter(visitor, chat_id)
    body = page.locator(".cm-user .cm-body").first
    assert len(body.inner_text()) < 10_000
    page.get_by_role("button", name="Show all 200,000 characters").click()
    assert body.inner_text() == longest
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_a_rolled_back_summary_is_not_shown_as_success(visitor: Person, first_look: FirstLook) -> None:
    """Every version of the sample chat's memory includes its first message."""
    page = enter(visitor, first_look.chat_id)
    page.locator("#summary-about", has_text="Version").wait_for()
    path = f"/v1/chats/{first_look.chat_id}/messages"
    first = first_look.api.get(f"{path}?limit=1").json()["results"][0]
    assert first_look.api.delete(f"{path}/{first['id']}").status_code == 204
    page.reload()
    page.get_by_text("Earlier versions").click()
    rolled = page.locator(".cm-version", has_text="Rolled back because a message was edited or deleted")
    rolled.get_by_role("button", name=re.compile("^Changes in version")).click()
    shown = page.locator("#summary .cm-rolled")
    shown.wait_for()
    assert page.locator("#summary ins, #summary del").count() == 0
    assert "the first version" not in page.locator("#summary").inner_text()
    assert visitor.axe() == []


def test_a_message_is_pinned_with_one_click_and_a_pin_removed(visitor: Person) -> None:
    page = enter(visitor)
    ask(page, "Hello. Always answer in metric units.")
    pins = page.locator("#pins li")
    pins.get_by_text("Always answer in metric units.").wait_for()
    pins.get_by_text("found in your message").wait_for()

    ask(page, "The code word is heron.")
    said = page.locator(".cm-user", has_text="The code word is heron.")
    said.hover()
    said.get_by_role("button", name="Pin", exact=True).click()
    pins.get_by_text("The code word is heron.").wait_for()
    pins.get_by_text("pinned by you").wait_for()
    assert pins.count() == 2
    page.locator(".cm-piece.cm-kind-pins").wait_for()
    assert visitor.axe() == []

    page.reload()
    pins.get_by_text("The code word is heron.").wait_for()
    pins.get_by_role("button", name="Remove the pin: Always answer in metric units.").click()
    pins.nth(1).wait_for(state="detached")
    assert page.locator("#announced").inner_text() == "The pin was removed."

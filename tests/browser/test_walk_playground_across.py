"""What a person's chats share, in the playground: seen, decided, corrected and muted where it is shown."""

from typing import Any

import pytest

from tests.browser.support.first_look import FirstLook, Person, person
from tests.browser.support.playground import COMPLETE, ask, enter, make_chat

pytestmark = pytest.mark.browser
ALLERGY, RISOTTO = "I'm allergic to peanuts.", "Marguerite brings the saffron risotto to the lighthouse."
MEMORY = "/v1/me/memory"


@pytest.fixture(autouse=True)
def nothing_is_shared(first_look: FirstLook) -> None:
    """The demo user has no chats, and has switched sharing off."""
    for chat in first_look.api.get("/v1/chats").json()["results"]:
        first_look.api.delete(f"/v1/chats/{chat['id']}").raise_for_status()
    first_look.api.put(MEMORY, json={"across": "off"}).raise_for_status()


def remembered(page: Any) -> Any:
    """Open what is remembered. Returns its dialog."""
    page.get_by_role("button", name="What do you remember about me?").click()
    page.locator("#remembered-all").wait_for()
    return page.get_by_role("dialog", name="What do you remember about me?")


def holds_in(page: Any, scope: str, told: str) -> None:
    page.get_by_role("combobox", name="Where it holds").select_option(scope)
    page.locator("#announced", has_text=told).wait_for()


def test_what_chats_share_is_decided_corrected_muted_and_kept_to_one_chat(visitor: Person) -> None:
    api = visitor.look.api
    dinner = make_chat(visitor, (ALLERGY, ""), title="Dinner")
    page = enter(visitor, dinner)
    dialog = remembered(page)
    dialog.get_by_text("Each of them remembers only itself.").wait_for()
    assert dialog.get_by_label("Keep what I say about myself").is_disabled()
    assert visitor.axe() == []
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "remembered-open"

    holds_in(page, "person", "Holds in all my chats.")
    page.get_by_role("button", name="Change what they share").click()
    dialog.get_by_label("Only pins").check()
    dialog.get_by_text("You decided this, just now.").wait_for()
    dialog.get_by_label("Keep what I say about myself").check()
    line = page.locator("#remembered-lines > li")
    visitor.wait_for(lambda: api.get(MEMORY).json()["lifts_pins"])
    assert api.get(MEMORY).json()["across"] == "pins"
    assert "in all your chats · said in Dinner, just now" in line.inner_text()

    line.get_by_role("button", name="Correct").click()
    page.get_by_role("textbox", name="Text").fill("I'm allergic to <b>walnuts</b>.")
    page.get_by_role("button", name="Save").click()
    line.get_by_text("I'm allergic to <b>walnuts</b>.").wait_for()
    line.get_by_role("button", name="Not relevant").click()
    line.get_by_role("button", name="Use again").wait_for()
    assert [(one["text"], one["muted"]) for one in api.get(MEMORY).json()["results"]] == [
        ("I'm allergic to <b>walnuts</b>.", True)
    ]
    assert visitor.axe() == []
    line.get_by_role("button", name="Only in this chat").click()
    dialog.get_by_text("Nothing yet.").first.wait_for()
    assert page.evaluate("document.activeElement.id") == "remembered-lines-title"
    dialog.get_by_role("button", name="Close").click()
    visitor.wait_for(lambda: page.get_by_role("combobox", name="Where it holds").input_value() == "chat")

    page.click("#sharing")
    page.get_by_label("Project", exact=True).fill("Feast")
    page.get_by_label("Shares with your other chats").select_option("off")
    assert visitor.axe() == []
    page.press("#dialog-project", "Enter")
    page.locator(f"#chats [data-id='{dinner}']", has_text="Feast").wait_for()
    chat = api.get(f"/v1/chats/{dinner}").json()
    assert (chat["project"], chat["across"]) == ("Feast", "off")
    holds_in(page, "project", "Holds in this project.")
    page.locator("#note", has_text="Your chats share no pins").wait_for()

    page.click("#delete")
    goes = "This permanently deletes 2 messages, 1 pin, and 1 record of a prompt."
    page.get_by_role("dialog").get_by_text(goes, exact=True).wait_for()
    page.get_by_role("button", name="Cancel").click()
    assert visitor.axe() == []


def test_more_lines_than_a_page_are_all_shown(visitor: Person) -> None:
    api = visitor.look.api
    chat = make_chat(visitor, title="Many")
    for n in range(60):
        api.post(f"/v1/chats/{chat}/pins", json={"text": f"Rule {n}.", "scope": "person"}).raise_for_status()
    page = enter(visitor)
    remembered(page).get_by_role("button", name="More", exact=True).click()
    page.locator("#remembered-lines", has_text="Rule 0.").wait_for()
    texts = page.locator("#remembered-lines .cm-pin").all_inner_texts()
    assert texts == [f"Rule {n}." for n in reversed(range(60))]
    assert "Rule 9." in page.evaluate("document.activeElement.closest('li').innerText")


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone in the dark"])
def test_the_sources_of_a_reply_lead_to_another_chat_and_are_muted(
    walking: Any, first_look: FirstLook, phone: bool
) -> None:
    with person(walking, first_look, phone=phone, dark=phone) as somebody:
        api = first_look.api
        api.put(MEMORY, json={"across": "all", "lifts_pins": True}).raise_for_status()
        dinner = make_chat(somebody, (ALLERGY, ""), (RISOTTO, ""), title="Dinner <i>party</i>")

        def is_found() -> bool:
            body = {"message": "Who brings the saffron risotto?"}
            other = make_chat(somebody)
            kinds = [one["kind"] for one in api.post(f"/v1/chats/{other}/context", json=body).json()["sections"]]
            api.delete(f"/v1/chats/{other}")
            return "elsewhere" in kinds

        somebody.wait_for(is_found, seconds=60)
        page = enter(somebody)
        ask(page, "Who brings the saffron risotto?")
        reply = page.locator(COMPLETE)
        opener = reply.get_by_role("button", name="Sources")
        opener.click()
        sources = page.get_by_role("region", name="Sources of message 2")
        sources.get_by_text("Quoted from other chats").wait_for()
        assert opener.get_attribute("aria-expanded") == "true"
        rows = [sources.locator("li", has=page.get_by_text(text, exact=True)) for text in (RISOTTO, ALLERGY)]
        quoted, pinned = (row.first for row in rows)  # the pin comes before its message, which is quoted, too
        for one in (quoted, pinned):
            assert "Dinner <i>party</i>, just now" in one.inner_text()
            one.get_by_role("button", name="Not relevant").click()
            one.get_by_role("button", name="Use again").wait_for()
        assert somebody.axe() == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        said = api.get(f"/v1/chats/{dinner}/messages").json()["results"]
        assert [one["content"] for one in said if one["muted"]] == [RISOTTO]
        assert [one["muted"] for one in api.get(MEMORY).json()["results"]] == [True]

        quoted.get_by_role("button", name="Why do you know this?").click()
        page.locator(".cm-found .cm-body", has_text=RISOTTO).wait_for()
        assert page.inner_text("#title") == "Dinner <i>party</i>"
        assert somebody.troubles() == []

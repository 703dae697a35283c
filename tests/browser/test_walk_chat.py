"""Staff inspect a chat: its memory, what the model saw, what it would see now, and why it forgot something."""

from __future__ import annotations

import re

import pytest

from tests.browser.support.first_look import FirstLook, Person

pytestmark = pytest.mark.browser

CHATS = "/admin/conversations/chat/"


def ask(look: FirstLook, text: str) -> None:
    """Send a message to the sample chat through the API, and wait for the final reply."""
    answer = look.api.post("/v1/message", json={"message": text, "stream": False, "chat_id": look.chat_id})
    assert answer.status_code in (200, 201), answer.text


def fine(person: Person) -> None:
    """Check that nothing went wrong on the current page, and that axe has no serious finding."""
    assert person.axe() == []
    assert person.troubles() == []
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert person.page.evaluate(wide) <= 0


def opened(person: Person) -> None:
    """Go from the list of chats to the sample chat."""
    person.go(CHATS)
    fine(person)
    person.page.get_by_role("link", name="A journey to Ljubljana").click()
    person.page.wait_for_load_state()


def test_staff_see_where_each_turn_stands(keeper: Person) -> None:
    opened(keeper)
    page = keeper.page
    assert page.locator(".cm-mark-folded").count() > 0
    assert page.locator(".cm-mark-verbatim").count() > 0
    assert "In use: version" in page.inner_text("#cm-memory")
    fine(keeper)
    page.get_by_role("link", name="‹ Older").first.click()
    page.wait_for_load_state()
    assert page.inner_text(".cm-turn h3") == "Messages 1–2"
    fine(keeper)


def test_staff_search_the_chat_and_go_to_what_was_found(keeper: Person) -> None:
    opened(keeper)
    page = keeper.page
    page.get_by_label("Search in this chat").fill("vegetarian")
    page.keyboard.press("Enter")
    page.wait_for_load_state()
    assert "vegetarian" in page.inner_text(".cm-found mark").lower()
    fine(keeper)
    found = page.locator(".cm-found-head a").first
    seq = re.sub(r"\D", "", found.inner_text())
    found.click()
    page.wait_for_load_state()
    here = page.locator(".cm-is-at")
    assert here.get_attribute("id") == f"m{seq}"
    assert here.is_visible()
    fine(keeper)


def test_a_page_that_is_opened_at_a_message_shows_it_also_without_a_fragment(keeper: Person) -> None:
    keeper.go(f"{CHATS}{keeper.look.chat_id}/change/?at=61")
    box = keeper.page.locator("#m61").bounding_box()
    assert 0 <= box["y"] < keeper.page.viewport_size["height"]


def test_what_the_model_saw_is_one_click_from_the_reply(keeper: Person, first_look: FirstLook) -> None:
    ask(first_look, "When and where is our concert?")
    opened(keeper)
    page = keeper.page
    page.get_by_role("link", name="Prompt sent").last.click()
    page.wait_for_load_state()
    assert "Verified: identical to the prompt that was sent" in page.inner_text("#content")
    for part in (
        "Memory budget",
        "In the prompt",
        "Sections that were sent",
        "Input tokens",
    ):
        assert part in page.inner_text("#content"), part
    fine(keeper)
    page.get_by_text("The prompt as messages").click()
    assert "When and where is our concert?" in page.locator("details[open] h3 + pre").last.inner_text()
    fine(keeper)


def test_what_it_would_see_now_sends_nothing(keeper: Person, first_look: FirstLook) -> None:
    messages = f"/v1/chats/{first_look.chat_id}/messages"
    before = first_look.api.get(messages).json()["results"]
    opened(keeper)
    page = keeper.page
    page.get_by_role("link", name="Preview next prompt").click()
    page.get_by_label("Question").fill("Who are the vegetarians?")
    page.get_by_role("button", name="Show the prompt").click()
    page.wait_for_load_state()
    assert "Who are the vegetarians?" in page.inner_text(".cm-section:last-of-type")
    fine(keeper)
    page.get_by_label("Policy").select_option("hierarchical")
    page.get_by_role("spinbutton", name="Tokens of memory").fill("700")
    page.get_by_role("button", name="Show the prompt").click()
    page.wait_for_load_state()
    assert "There is no memory under another policy" in page.inner_text("#content")
    assert "of 700 tokens" in page.inner_text("#content")
    page.get_by_role("spinbutton", name="Tokens of memory").fill("-7")
    page.get_by_role("button", name="Show the prompt").click()
    page.wait_for_load_state()
    assert "greater than or equal to 0" in page.inner_text(".errorlist")
    fine(keeper)
    assert first_look.api.get(messages).json()["results"] == before


def test_the_chat_can_be_read_on_a_phone_and_in_the_dark(keeper: Person) -> None:
    keeper.page.set_viewport_size({"width": 375, "height": 812})
    keeper.page.emulate_media(color_scheme="dark")
    opened(keeper)
    fine(keeper)
    keeper.page.get_by_role("link", name="To the memory").click()
    assert keeper.page.locator("#cm-memory-title").is_visible()
    keeper.page.get_by_role("link", name="Preview next prompt").click()
    keeper.page.wait_for_load_state()
    fine(keeper)


# Why was it forgotten?

FACT = "+31 30 555 0142"
"""A fact in the sample chat's summary, until it is removed by hand."""


def test_staff_find_the_version_that_lost_a_fact_and_restore_the_one_before(
    keeper: Person, first_look: FirstLook
) -> None:
    assert FACT in summary(first_look)
    take_out(keeper)
    assert FACT not in summary(first_look)

    # Suppose a user complains about this reply. What did the model see? Not the number, though it was said and folded.
    ask(first_look, "What shall we have for lunch?")
    page = keeper.page
    keeper.go(f"{CHATS}{first_look.chat_id}/change/?q=emergency+telephone")
    assert FACT in page.inner_text(".cm-found")
    assert page.locator(".cm-found .cm-mark-folded").count() >= 1
    page.get_by_role("link", name="Prompt sent").last.click()
    page.wait_for_load_state()
    assert FACT not in page.locator("details.cm-section", has_text="Summary").first.inner_text()
    fine(keeper)

    # The version used for that reply has lost it, and the page says where it was said.
    page.get_by_role("link", name=re.compile(r"^version \d+$")).click()
    page.wait_for_load_state()
    assert page.locator(".cm-lost li", has_text=FACT.split()[-1]).count() == 1

    # The version before has it.
    page.get_by_role("link", name=re.compile(r"^← version \d+$")).click()
    page.wait_for_load_state()
    page.get_by_role("button", name="Restore…").click()
    page.wait_for_load_state()
    page.get_by_role("button", name=re.compile("^Restore version")).click()
    page.wait_for_load_state()
    assert FACT in summary(first_look)
    keeper.go(f"{CHATS}{first_look.chat_id}/change/")
    assert FACT in page.inner_text("#cm-memory")
    fine(keeper)


def test_from_a_reply_to_the_fold_that_lost_a_fact_in_two_clicks_and_one_word(
    keeper: Person, first_look: FirstLook
) -> None:
    ask(first_look, "What shall we take along?")
    word, version = lost_by_a_fold(first_look)
    opened(keeper)
    page = keeper.page
    page.get_by_role("link", name="Prompt sent").last.click()
    page.wait_for_load_state()
    fine(keeper)
    page.get_by_label("Trace a fact").fill(word)
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert f"lost in version {version}" in page.inner_text("#content")
    fine(keeper)
    page.get_by_role("link", name=f"See what version {version} changed").first.click()
    page.wait_for_load_state()
    assert word.casefold() in " ".join(page.locator(".cm-diff del").all_inner_texts()).casefold()
    fine(keeper)


def lost_by_a_fold(look: FirstLook) -> tuple[str, int]:
    """Return a word that the summary had, and the version that lost it when newer messages were folded."""
    versions = look.api.get(f"/v1/chats/{look.chat_id}/revisions").json()["results"]
    for one in versions:
        if one["kind"] != "fold" or one["parent"] is None:
            continue
        changes = look.api.get(f"/v1/chats/{look.chat_id}/revisions/{one['version']}/diff").json()
        for span in changes["lost"]:
            if span.isalnum() and span.casefold() not in str(one["global_summary"]).casefold():
                return span, one["version"]
    raise AssertionError("no fold of the sample lost a word")


def take_out(person: Person) -> None:
    """Remove the line with the fact from the summary by hand."""
    page = person.page
    person.go(f"/admin/memory/conversationbrief/{person.look.chat_id}/edit/")
    text = page.locator("textarea.cm-area").first
    kept = [line for line in text.input_value().splitlines() if FACT not in line]
    text.fill("\n".join(kept))
    page.get_by_role("button", name="Review changes…").click()
    page.get_by_role("button", name="Save").click()
    page.wait_for_load_state()


def summary(look: FirstLook) -> str:
    """Return the summary of the sample chat."""
    return str(look.api.get(f"/v1/chats/{look.chat_id}/brief").json()["brief"]["global_summary"])

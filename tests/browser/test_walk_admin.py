"""The staff's pages, on a desktop and on a phone in dark mode: filters, and the ways from words to a prompt."""

import re

import pytest

from tests.browser.support.first_look import FirstLook, Person

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_filters_are_folded_on_a_phone_until_they_are_opened(anywhere: Person) -> None:
    anywhere.go("/admin/conversations/chat/")
    page, is_phone = anywhere.page, anywhere.page.viewport_size["width"] < 500
    low = page.get_by_role("link", name="Failed replies")
    assert low.is_visible() is not is_phone
    if is_phone:
        page.locator(".cm-filters > summary").click()
    low.click()
    page.wait_for_url("**memory=failed")
    assert page.locator(".cm-filters > summary").inner_text() == "Filters in use"
    assert low.is_visible(), "who opened them finds them open"
    assert page.get_by_text("0 entries").count() == 1


def test_from_words_to_the_place_in_the_chat_and_the_prompt_of_a_reply(anywhere: Person, first_look: FirstLook) -> None:
    body = {"message": "Who are the vegetarians?", "stream": False, "chat_id": first_look.chat_id}
    assert first_look.api.post("/v1/message", json=body).status_code in (200, 201)
    page = anywhere.page
    if page.viewport_size["width"] < 500:
        page.locator(".cm-phone-menu > summary").click()
    page.get_by_label("Search in the messages of all chats").fill("vegetarians")
    page.keyboard.press("Enter")
    page.wait_for_url("**/message/?q=vegetarians")
    assert page.locator("mark").count() > 0
    anywhere.go(f"/admin/conversations/chat/{first_look.chat_id}/change/?at=61")
    box = page.locator("#m61").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < page.viewport_size["height"], "it is shown also without a fragment"
    anywhere.go(f"/admin/conversations/chat/{first_look.chat_id}/change/")
    page.get_by_role("link", name="Prompt sent").last.click()
    page.wait_for_url(re.compile("contextrecord"))
    assert "Verified: identical to the prompt that was sent" in page.inner_text("#content")

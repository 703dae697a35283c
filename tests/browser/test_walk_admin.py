"""The staff's pages of accounts, search and reading, on a desktop and on a phone in dark mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.support.first_look import FirstLook, Person, person

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(params=[False, True], ids=["desktop", "phone in the dark"])
def keeper(request: pytest.FixtureRequest, walking: Any, first_look: FirstLook) -> Iterator[Person]:
    with person(walking, first_look, phone=request.param, dark=request.param) as somebody:
        somebody.sign_in()
        yield somebody


def test_pages_of_accounts_and_lists_are_well(keeper: Person) -> None:
    chat = keeper.look.chat_id
    for path in (
        *("auth/user/", "auth/user/1/change/", "auth/user/1/tokens/", "conversations/allowance/add/"),
        *("conversations/contentview/", "conversations/chat/search/?q=bass", "memory/summaryrevision/"),
        *(f"conversations/chat/{chat}/read/", f"conversations/chat/{chat}/delete/", "conversations/message/"),
    ):
        keeper.go(f"/admin/{path}")
        keeper.page.wait_for_load_state("networkidle")
        assert keeper.axe() == [], path
        wide, window = keeper.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window, path
    assert keeper.troubles() == []


def test_filters_are_folded_on_a_phone_until_they_are_opened(keeper: Person) -> None:
    keeper.go("/admin/conversations/chat/")
    page, is_phone = keeper.page, keeper.page.viewport_size["width"] < 500
    low = page.get_by_role("link", name="Failed replies")
    assert low.is_visible() is not is_phone
    assert keeper.axe() == []
    if is_phone:
        page.locator(".cm-filters > summary").click()
    low.click()
    page.wait_for_url("**trouble=failed")
    assert page.locator(".cm-filters > summary").inner_text() == "Filters in use"
    assert low.is_visible(), "who opened them finds them open"
    assert page.get_by_text("0 chats").count() == 1
    assert keeper.axe() == []
    assert keeper.troubles() == []


def test_from_words_to_the_chat_as_its_owner_sees_it(keeper: Person) -> None:
    page = keeper.page
    page.get_by_label("Search in the messages of all chats").fill("vegetarians")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=vegetarians")
    page.locator(".cm-found-head a").first.click()
    page.wait_for_load_state()
    page.get_by_role("link", name="Open in playground").click()
    page.locator(".cm-body strong").first.wait_for(state="attached")  # replies are rendered as Markdown
    last = page.locator(".cm-message").last.bounding_box()
    assert last is not None
    assert last["y"] < keeper.page.viewport_size["height"], "it opens at the newest message"
    assert page.locator("form, textarea, input, button:not(.cm-code button)").count() == 0
    assert keeper.troubles() == []

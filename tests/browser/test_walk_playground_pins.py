"""Pins in the playground: a detected pin appears, one click pins a message, and a pin is removed."""

from __future__ import annotations

import pytest

from tests.browser.support.first_look import Person
from tests.browser.support.playground import ask, enter

pytestmark = pytest.mark.browser


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
    assert visitor.troubles() == []

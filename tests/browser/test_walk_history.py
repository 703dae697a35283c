"""Staff look at the history of a summary, and change the memory."""

from __future__ import annotations

import re

import pytest

from tests.browser.support.first_look import PHONE, Person

pytestmark = pytest.mark.browser

HERON = "A heron stood in the reeds beside the hall HAT062."


def brief_of(keeper: Person) -> str:
    return f"/admin/memory/conversationbrief/{keeper.look.chat_id}/change/"


def all_is_well(keeper: Person) -> None:
    """Check that the current page has no serious finding of axe, and that nothing went wrong on any page so far."""
    assert keeper.axe() == []
    assert keeper.troubles() == []


def in_use(keeper: Person) -> int:
    keeper.go(brief_of(keeper))
    return int(keeper.page.locator(".cm-in-use th a").inner_text())


def press(keeper: Person, name: str) -> None:
    with keeper.page.expect_navigation():
        keeper.page.get_by_role("button", name=name, exact=True).click()


def rebuild(keeper: Person) -> int:
    """Rebuild the memory and wait for it. Return the new revision."""
    before = in_use(keeper)
    press(keeper, "Rebuild…")
    press(keeper, "Yes, rebuild this memory")
    keeper.page.get_by_text("See what changed").wait_for(timeout=60_000)
    after = in_use(keeper)
    assert after > before
    return after


def edit(keeper: Person, text: str) -> int:
    """Replace the summary's last lines by `text`. Return the new revision."""
    keeper.go(brief_of(keeper))
    keeper.page.get_by_role("link", name="Edit by hand").click()
    field = keeper.page.get_by_label("Summary")
    field.fill("\n".join([*field.input_value().splitlines()[:-3], text]))
    press(keeper, "Review changes…")
    assert keeper.page.locator("ins", has_text="heron").count() > 0
    all_is_well(keeper)
    press(keeper, "Save")
    return in_use(keeper)


def test_a_rebuild_tells_what_it_takes_and_how_far_it_is(keeper: Person) -> None:
    keeper.go(brief_of(keeper))
    all_is_well(keeper)
    before = in_use(keeper)
    press(keeper, "Rebuild…")
    estimate = keeper.page.inner_text(".cm-estimate")
    assert "Estimate" in estimate
    assert re.search(r"Summarizer calls\s+[1-9]", estimate)
    assert "the built-in summarizer is free" in estimate
    all_is_well(keeper)
    press(keeper, "Yes, rebuild this memory")
    box = keeper.page.locator(".cm-under-way")
    assert box.locator(".cm-sentence").inner_text()
    assert "is being summarized" in keeper.page.inner_text(".messagelist")
    box.get_by_text("See what changed").wait_for(timeout=60_000)
    keeper.wait_for(lambda: "Up to date" in box.inner_text())
    assert f"version {before + 1} is in use" in box.inner_text()
    keeper.page.locator(".cm-in-use", has_text="rebuilt").wait_for()
    assert f"version {before + 1}," in keeper.page.inner_text("#cm-remembered h2")
    assert keeper.page.locator(".messagelist li").count() == 0
    all_is_well(keeper)
    with keeper.page.expect_navigation():
        box.get_by_text("See what changed").click()
    assert f"Versions {before} and {before + 1} of" in keeper.page.inner_text("h1")


def test_two_revisions_are_compared(keeper: Person) -> None:
    keeper.go(brief_of(keeper))
    keeper.page.get_by_label("From version 1", exact=True).check()
    keeper.page.get_by_label("To version 2", exact=True).check()
    press(keeper, "Compare")
    page = keeper.page
    assert "Versions 1 and 2 of" in page.inner_text("h1")
    assert page.locator(".cm-diff del, .cm-diff ins").count() > 0
    assert page.locator(".cm-chip").count() > 2
    all_is_well(keeper)
    page.get_by_role("row").get_by_role("link", name="2", exact=True).click()
    lost = page.locator(".cm-lost a").first
    span = lost.locator("bdi").inner_text().removeprefix("−").strip()
    all_is_well(keeper)
    with page.expect_navigation():
        lost.click()
    assert "/admin/conversations/chat/" in page.url
    assert span.casefold() in page.inner_text("body").casefold()


def test_memory_is_edited_by_hand_and_an_older_one_restored(keeper: Person) -> None:
    before = in_use(keeper)
    edited = edit(keeper, HERON)
    assert edited == before + 1
    page = keeper.page
    assert "edited by hand" in page.locator(".cm-in-use").inner_text()
    assert HERON in page.locator("#cm-remembered .cm-text").inner_text()
    told = keeper.look.api.get(f"/v1/chats/{keeper.look.chat_id}/brief").json()
    assert HERON in str(told)
    all_is_well(keeper)

    page.get_by_role("rowheader").get_by_role("link", name=str(before), exact=True).click()
    press(keeper, "Restore…")
    assert "Restoring is free." in page.inner_text("#content")
    assert page.get_by_label("Keep this text: pause updates").is_checked()
    all_is_well(keeper)
    press(keeper, f"Restore version {before}")
    assert f"Version {before} was restored" in page.inner_text("body")
    assert f"restored from {before}" in page.locator(".cm-in-use").inner_text()
    assert HERON not in page.locator("#cm-remembered .cm-text").inner_text()

    # The pause lasts until updates are resumed.
    assert "Updates are paused" in page.inner_text(".cm-under-way")
    assert "paused" in page.locator(".cm-in-use").inner_text()
    all_is_well(keeper)
    press(keeper, "Resume updates")
    assert "Updates are resumed." in page.inner_text("body")
    page.get_by_role("link", name="Clear summary…").click()
    all_is_well(keeper)
    press(keeper, "Clear the summary")
    assert "cleared from" in page.locator(".cm-in-use").inner_text()
    assert page.locator("#cm-remembered .cm-text").count() == 0
    all_is_well(keeper)


def test_tokens_are_counted_while_somebody_writes(keeper: Person) -> None:
    keeper.go(brief_of(keeper))
    keeper.page.get_by_role("link", name="Edit by hand").click()
    count = keeper.page.locator(".cm-count")
    keeper.page.get_by_label("Summary").fill("One heron.")
    count.filter(has_text="4 of 500 tokens").wait_for()
    keeper.page.get_by_label("Summary").fill("heron " * 600)
    keeper.page.locator(".cm-count.cm-over").wait_for()
    all_is_well(keeper)


def test_two_who_edit_at_once_are_told(keeper: Person) -> None:
    keeper.go(brief_of(keeper))
    page = keeper.page
    page.get_by_role("link", name="Edit by hand").click()
    page.get_by_label("Summary").fill("A heron of mine.")
    keeper.page = page.context.new_page()  # a second user, in another tab
    rebuild(keeper)
    keeper.page = page
    press(keeper, "Review changes…")
    assert "Nothing was saved." in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Summary").input_value() == "A heron of mine."
    assert keeper.axe() == []


def test_it_all_fits_a_phone_and_works_by_keyboard(keeper: Person) -> None:
    keeper.page.set_viewport_size(PHONE)
    chat = f"/admin/memory/conversationbrief/{keeper.look.chat_id}"
    for path in (f"{chat}/change/", f"{chat}/diff/?from=1&to=2", f"{chat}/edit/"):
        keeper.go(path)
        wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert keeper.page.evaluate(wider) == 0, path
        all_is_well(keeper)
    keeper.go(f"{chat}/change/")
    keeper.page.get_by_label("To version 2", exact=True).focus()
    keeper.page.keyboard.press("ArrowDown")
    keeper.page.keyboard.press("Enter")
    keeper.page.wait_for_url("**/diff/**")

"""The overview as staff see it: charts are drawn, tables have the same numbers, and no information needs colour."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.browser.support.first_look import FirstLook, Person, person
from tests.browser.support.screenshots import run

pytestmark = pytest.mark.browser

PAINTED = """canvas => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return new Set(new Uint32Array(pixels.buffer)).size;
}"""
"""Counts the colours on a canvas: one if nothing was drawn."""


FAILING = """
from datetime import timedelta
from django.utils import timezone
from memory.models import ConversationBrief
ConversationBrief.objects.filter(chat="{}").update(
    due=True, attempts=2, next_attempt_at=timezone.now() + timedelta(hours=1),
    last_error=dict(code="upstream_timeout", message=""),
)
"""
AT_REST = """
from memory.models import ConversationBrief
ConversationBrief.objects.filter(chat="{}").update(
    due=False, attempts=0, next_attempt_at=None, last_error=None
)
"""


@pytest.fixture(scope="module", autouse=True)
def said(first_look: FirstLook) -> None:
    """Store a reply, which the next sweep counts. The folds of the samples are already counted."""
    answer = first_look.api.post(
        "/v1/message", json={"chat_id": first_look.chat_id, "message": "When is our concert?"}
    )
    assert answer.status_code == 200


@pytest.fixture(params=["desktop", "phone in the dark"])
def looking(walking: Any, first_look: FirstLook, request: pytest.FixtureRequest) -> Iterator[Person]:
    small = request.param != "desktop"
    with person(walking, first_look, phone=small, dark=small) as somebody:
        somebody.sign_in()
        yield somebody


def opened(somebody: Person) -> Any:
    """Open the overview by links, from the admin's first page."""
    page = somebody.page
    page.get_by_role("link", name="Overview", exact=True).click()
    page.wait_for_selector(".cm-chart canvas")
    return page


def test_charts_are_drawn_and_are_those_of_the_tables(looking: Person) -> None:
    page = opened(looking)
    charts = page.locator("[data-chart]")
    names = charts.evaluate_all("all => all.map(one => one.dataset.chart)")
    assert names == ["tokens", "cost", "saved", "folds", "duration", "kept"]
    for canvas in page.locator(".cm-chart canvas").all():
        assert canvas.evaluate(PAINTED) > 3
    folds = page.locator("[data-chart=folds]")
    folds.locator("summary").click()
    newest = folds.locator("tbody tr").first.locator("td").first.inner_text()
    assert int(newest) > 0
    assert f"published {newest}" in " ".join(folds.locator(".cm-keys").inner_text().split())
    assert looking.axe() == []
    assert looking.troubles() == []


def test_lines_are_told_apart_without_colour(keeper: Person) -> None:
    keys = opened(keeper).locator("[data-chart=folds] .cm-keys svg")
    looks = keys.evaluate_all(
        "all => all.map(one => [one.querySelector('line').getAttribute('stroke-dasharray'), one.textContent])"
    )
    dashes, signs = zip(*looks, strict=True)
    assert len(looks) == 3
    assert len(set(dashes)) == len(set(signs)) == 3


WIDEST = """() => Math.max(document.documentElement.scrollWidth,
    ...[...document.querySelectorAll(".cm-chart canvas")].map(one => one.getBoundingClientRect().right))"""


def fits(page: Any, width: int) -> bool:
    return bool(page.evaluate(WIDEST) <= width)


def test_nothing_is_wider_than_the_screen_at_any_size(keeper: Person) -> None:
    page = opened(keeper)
    for width in (1280, 768, 375):
        page.set_viewport_size({"width": width, "height": 800})
        keeper.wait_for(partial(fits, page, width), 5)


def test_the_theme_repaints_the_charts(keeper: Person) -> None:
    page = opened(keeper)
    canvas = page.locator(".cm-chart canvas").first
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    page.emulate_media(color_scheme="dark")
    keeper.wait_for(lambda: canvas.evaluate("canvas => canvas.toDataURL()") != before, 5)
    assert keeper.axe() == []
    assert keeper.troubles() == []


def test_a_period_is_chosen_by_keyboard(keeper: Person) -> None:
    page = opened(keeper)
    page.get_by_role("link", name="7 days").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/?days=7")
    assert page.locator("h2", has_text="The last 7 days").count() == 1
    assert page.locator("[data-chart=tokens] tbody tr").count() == 7
    assert page.locator("nav[aria-label=Period] a[aria-current]").inner_text() == "7 days"


def test_a_chart_is_read_day_by_day_by_keyboard(keeper: Person) -> None:
    page = opened(keeper)
    chart = page.locator("[data-chart=folds]")
    chart.locator("summary").click()
    days = chart.locator("tbody tr")
    keys, plot = chart.locator(".cm-keys"), chart.locator(".uplot")

    def told(row: Any) -> bool:
        """Whether the legend shows the figures of that table row, in a live region for screen readers."""
        figures = row.locator("td").all_inner_texts()
        return bool(
            keys.locator("b").all_inner_texts() == figures and keys.get_attribute("aria-live") == "polite"
        )

    plot.focus()
    for key, row in (("End", days.first), ("ArrowLeft", days.nth(1)), ("Home", days.last)):
        page.keyboard.press(key)
        date = row.locator("time").get_attribute("datetime")
        shown = keys.locator("li").last.inner_text()
        assert str(int(date[-2:])) in shown
        assert told(row)
    assert keeper.axe() == []
    page.keyboard.press("Tab")
    assert keys.get_attribute("aria-live") is None


def test_a_number_leads_to_the_chats_that_it_counts(keeper: Person) -> None:
    look = keeper.look
    run(look, "manage.py", "shell", "-v", "0", "-c", FAILING.format(look.chat_id))
    try:
        page = opened(keeper)
        page.get_by_role("link", name="Failing: 1").first.click()
        page.wait_for_url("**/conversationbrief/?memory=failing")
        assert page.locator("#result_list tbody tr").count() == 1
        assert "did not answer in time" in page.locator("#result_list").inner_text()
        assert page.locator(f"#result_list a[href*='{look.chat_id}']").count() > 0
        assert keeper.axe() == []
        assert keeper.troubles() == []
    finally:
        run(look, "manage.py", "shell", "-v", "0", "-c", AT_REST.format(look.chat_id))


def test_without_scripts_the_numbers_are_all_there(walking: Any, keeper: Person) -> None:
    cookies = keeper.page.context.cookies()
    context = walking.new_context(java_script_enabled=False)
    try:
        context.add_cookies(cookies)
        page = context.new_page()
        page.goto(f"{keeper.look.url}/admin/")
        assert page.locator(".cm-tiles li").count() == 5
        page.locator("[data-chart=folds] summary").click()
        assert page.locator("[data-chart=folds] tbody tr").first.is_visible()
        assert not page.locator("[data-chart=folds] .cm-chart").is_visible()
    finally:
        context.close()

"""Replies in the playground that are slow, break off, or are hostile, from a model's server that the test controls."""

from typing import Any

import pytest

from tests.browser.support.corpus import CANARY_HOST, CORPUS
from tests.browser.support.first_look import Person, person
from tests.browser.support.playground import (
    COMPLETE,
    ask,
    begin,
    come_in,
    enter,
    make_chat,
    newest,
    say,
    stored_messages,
)
from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.upstream import FakeUpstream

pytestmark = [pytest.mark.browser, pytest.mark.nightly]
MODEL_SETTINGS: dict[str, str] = {}
ACTIVE = "#messages :is(script, img, iframe, style, link, form, base, meta, object, embed, video)"


def test_a_reload_in_mid_reply_loses_nothing(visitor: Person) -> None:
    chat_id = begin(visitor, "Take your time.")
    page = visitor.page
    page.reload()
    page.locator('.cm-message:last-child[data-status="streaming"]').wait_for()
    page.locator("#stop").wait_for()
    page.wait_for_selector(COMPLETE)
    assert newest(page) == stored_messages(visitor, chat_id)[-1]["content"]
    assert len(newest(page).split()) == 80


def test_a_lost_connection_is_reported_and_resumed(visitor: Person) -> None:
    chat_id = begin(visitor, "Take your time.")
    page = visitor.page
    page.context.set_offline(True)
    page.get_by_text("You are offline.").wait_for()
    page.context.set_offline(False)
    page.wait_for_selector(COMPLETE)
    assert newest(page) == stored_messages(visitor, chat_id)[-1]["content"]


def test_stop_keeps_the_partial_reply_and_regenerate_replaces_it(visitor: Person) -> None:
    chat_id = begin(visitor, "Take your time.")
    page = visitor.page
    page.click("#stop")
    page.locator(".cm-ended", has_text="Stopped. The partial reply").wait_for()
    assert stored_messages(visitor, chat_id)[-1]["status"] == "cancelled"
    assert visitor.axe() == []
    page.select_option("#variant", "echo")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(COMPLETE)
    page.locator(".cm-message:last-child").get_by_role("button", name="Regenerate").click()
    versions = page.get_by_role("group", name="Versions of this answer")
    versions.get_by_text("3/3").wait_for()
    assert page.locator(".cm-reply:visible").count() == 2
    assert page.get_by_role("button", name="Next version").is_disabled()
    page.get_by_role("button", name="Previous version").click()
    page.get_by_role("button", name="Previous version").press("Enter")
    versions.get_by_text("1/3").wait_for()
    page.locator("#announced", has_text="Version 1 of 3").wait_for()
    page.locator(".cm-reply:visible .cm-ended", has_text="Stopped.").wait_for()
    assert page.locator(".cm-reply:visible").count() == 2
    assert page.get_by_role("button", name="Next version").evaluate("one => one === document.activeElement")
    assert visitor.axe() == []
    page.reload()
    versions.get_by_text("3/3").wait_for()
    kinds = [(one["role"], one["status"]) for one in stored_messages(visitor, chat_id)[2:]]
    assert kinds == [
        ("user", "complete"),
        ("assistant", "cancelled"),
        ("assistant", "complete"),
        ("assistant", "complete"),
    ]


def test_a_question_is_edited_and_asked_again(visitor: Person) -> None:
    chat_id = make_chat(visitor, ("My locker is number 17.", "echo"), ("Which locker?", "echo"))
    page = enter(visitor, chat_id)
    first, second = (page.locator(".cm-user").nth(n) for n in (0, 1))
    again = page.get_by_role("button", name="Save and ask again")
    visitor.expected = ("503", "400")
    first.hover()
    first.get_by_role("button", name="Edit").click()
    page.get_by_role("button", name="Save", exact=True).wait_for()
    assert again.count() == 0
    page.keyboard.press("Escape")

    second.hover()
    second.get_by_role("button", name="Edit").click()
    assert visitor.axe() == []
    page.fill("#dialog-field", "  ")
    again.click()
    page.locator("#dialog-told", has_text="blank").wait_for()
    refused = {"status": 503, "json": {"error": {"code": "unavailable", "message": "Not now."}}}
    page.route("**/v1/chats/*/messages/*", lambda route: route.fulfill(**refused))
    page.fill("#dialog-field", "Which bicycle?")
    again.click()
    page.locator("#dialog-told", has_text="Not now.").wait_for()
    page.unroute("**/v1/chats/*/messages/*")
    assert page.input_value("#dialog-field") == "Which bicycle?"
    again.click()
    page.locator(".cm-message:last-child .cm-body", has_text="Which bicycle?").wait_for()
    page.wait_for_selector(COMPLETE)
    said = stored_messages(visitor, chat_id)[2:]
    assert [one["role"] for one in said] == ["user", "assistant", "assistant"]
    assert said[0]["content"] == "Which bicycle?"
    assert said[1]["superseded_by"] == said[2]["id"]


def test_keys_stop_search_and_begin_and_are_listed(visitor: Person) -> None:
    chat_id = begin(visitor, "Take your time.")
    page = visitor.page
    page.click("#rename")
    page.keyboard.press("Escape")
    page.locator("dialog[open]").wait_for(state="detached")
    assert page.locator("#stop").is_visible()
    page.press("#message", "?")
    assert page.input_value("#message") == "?"
    page.press("#message", "Escape")
    page.locator(".cm-ended", has_text="Stopped.").wait_for()
    assert stored_messages(visitor, chat_id)[-1]["status"] == "cancelled"

    page.locator("#scroller").focus()
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keyboard shortcuts").wait_for()
    assert visitor.axe() == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.wait_for_function("document.activeElement.id === 'search'")
    for name, target in (("To the memory panel", "memory-title"), ("To the message field", "message")):
        page.get_by_role("link", name=name).press("Enter")
        assert page.evaluate("document.activeElement.id") == target
    assert chat_id in page.url
    page.keyboard.press("Control+Shift+O")
    page.get_by_role("heading", name="New chat").wait_for()


def test_other_tabs_show_new_messages(visitor: Person) -> None:
    chat_id = make_chat(visitor, ("Hello.", "echo"))
    other = visitor.page.context.new_page()
    other.goto(f"{visitor.look.url}/playground/#token={visitor.look.demo_token}&chat={chat_id}")
    come_in(other)
    other.wait_for_selector(COMPLETE)
    page = enter(visitor, chat_id)
    page.select_option("#variant", "slow")
    say(page, "Take your time.")
    other.locator(".cm-user", has_text="Take your time.").wait_for()
    other.locator('.cm-message:last-child[data-status="streaming"] .cm-body', has_text="lorem").wait_for()
    other.wait_for_selector(COMPLETE)
    assert newest(other) == stored_messages(visitor, chat_id)[-1]["content"]
    page.wait_for_selector(COMPLETE)

    page.locator(".cm-user").last.hover()
    page.locator(".cm-user").last.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    other.get_by_text("This message was deleted, from memory too.").wait_for()

    page.click("#new")
    ask(page, "My other locker is number 19.")
    other.locator(".cm-chat-title", has_text="My other locker is number 19.").wait_for()


def test_a_running_reply_is_shown_to_its_end(walking: Any, visitor: Person) -> None:
    chat_id = make_chat(visitor, ("Hello.", "echo"))
    page = enter(visitor, chat_id)
    with person(walking, visitor.look) as somebody:  # another browser: this one tells it nothing
        other = enter(somebody, chat_id)
        page.select_option("#variant", "slow")
        say(page, "Take your time.")
        page.locator('.cm-message:last-child[data-status="streaming"] .cm-body', has_text="lorem").wait_for()
        say(other, "Me first!")
        other.get_by_text("A reply is being written in this chat.").wait_for()
        other.locator('.cm-message:last-child[data-status="streaming"] .cm-body', has_text="lorem").wait_for()
        assert other.get_by_text("A reply is being written in this chat.").is_visible()
        other.wait_for_selector(COMPLETE)
        other.get_by_text("A reply is being written in this chat.").wait_for(state="detached")
        assert other.input_value("#message") == "Me first!"
        assert newest(other) == stored_messages(visitor, chat_id)[-1]["content"]

        page.select_option("#variant", "echo")
        ask(page, "And then?")
        other.evaluate("dispatchEvent(new Event('focus'))")
        other.locator(".cm-user", has_text="And then?").wait_for()


def test_a_failing_model_is_reported_in_a_sentence(visitor: Person) -> None:
    page = enter(visitor)
    page.select_option("#variant", "broken")
    say(page, "Are you there?")
    page.locator(".cm-ended").wait_for()
    assert page.inner_text(".cm-ended").startswith("No reply.")
    assert "{" not in page.inner_text("#messages")
    assert visitor.axe() == []
    page.select_option("#variant", "echo")
    ask(page, "And now?")
    failed = page.locator('.cm-reply[data-status="failed"]')
    assert [one.get_attribute("aria-label") for one in failed.locator(".cm-tools button").all()] == [
        "Delete",
        "Prompt sent",
        "Sources of this reply",
    ]


def test_model_output_is_inert(visitor: Person) -> None:
    page = enter(visitor)
    for hostile in ("\n\n".join(CORPUS), *CORPUS[:6], *CORPUS[-14:-7]):
        ask(page, hostile)
    for one in page.locator(".cm-reply a").all():
        address = one.get_attribute("href") or ""
        assert address.startswith((f"https://{CANARY_HOST}", "http://", "https://", "mailto:")), address
        assert one.get_attribute("rel") == "noopener noreferrer nofollow"
    assert page.locator(ACTIVE).count() == 0


# Replies longer than the window

FROM_END = """
(one => Math.round(one.scrollHeight - one.clientHeight - one.scrollTop))(document.getElementById("scroller"))
"""
TABLE = "| Day | Train | Price |\n|---|---|---|\n" + "\n".join(
    f"| {day} | IC {200 + day} | {day * 7} |" for day in range(18)
)
CODE = "```python\n" + "\n".join(f"total += price_of({day})  # day {day}" for day in range(24)) + "\n```"
LONG = f"# The plan\n\n{TABLE}\n\nAnd how it adds up:\n\n{CODE}\n\n" + "\n\n".join(
    f"{day}. A paragraph about this day, long enough to take more than one line in the window. " * 2 for day in range(6)
)
"""Two screens of Markdown."""
STEP = """1. Then:

   | day | plan |
   |---|---|
   | Monday | rehearse |

   ```python
   x = price_of("seat")

   y = x + 1
   ```

   Done.
"""
SCREENS = STEP * 9
"""A list with tables and code, two screens long: while it grows, all of it is drawn anew."""


def from_end(page: Any) -> int:
    """Return how many pixels of the chat are below the window, once everything is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.wait_for_timeout(100)
    return int(page.evaluate(FROM_END))


def test_long_replies_keep_the_view_at_the_end(visitor: Person, fake: FakeUpstream) -> None:
    page = enter(visitor)
    for text, rate in ((LONG, 80), (SCREENS, 300), (LONG, 80)):
        fake.script("stream", Behaviour(text=text, rate=rate))
        ask(page, "And then?")
        last = page.locator(".cm-message:last-child")
        assert last.bounding_box()["height"] > 2 * page.locator("#scroller").bounding_box()["height"]
        assert from_end(page) == 0
        assert not page.locator("#newest").is_visible()

    # After scrolling up, sending shows the question and follows its reply.
    page.evaluate("document.getElementById('scroller').scrollTop = 300")
    page.locator("#newest").wait_for()
    fake.script("stream", Behaviour(text=LONG, rate=80))
    say(page, "And one more.")
    page.locator(".cm-user", has_text="And one more.").wait_for()
    page.locator(f"{COMPLETE} table").wait_for()
    assert from_end(page) == 0


# Updates of memory that take as long as a real summarizer's, or fail

NOTES = [(f"Note {number}: the lamp of berth {number} is lit.", "") for number in range(8)]
LONG_MS = 60_000
GAVE_UP_ONCE_MS = 13_000
"""After this time, the panel once said wrongly that there was nothing to summarize."""


def test_a_slow_update_shows_progress_until_it_is_published(visitor: Person, fake: FakeUpstream) -> None:
    page = enter(visitor, make_chat(visitor, *NOTES))
    told = page.locator("#fold-told")
    fake.hold("complete")
    try:
        page.get_by_role("button", name="Update memory").click()
        page.locator("#fold-told", has_text="A worker is updating the memory.").wait_for()
        page.wait_for_timeout(GAVE_UP_ONCE_MS)
        assert told.inner_text() == "A worker is updating the memory."
    finally:
        fake.release("complete")
    page.locator(".cm-landed").wait_for(timeout=LONG_MS)
    page.locator("#summary-about", has_text="Version 1").wait_for()


def test_a_failing_update_says_why_and_that_it_is_retried(visitor: Person, fake: FakeUpstream) -> None:
    page = enter(visitor, make_chat(visitor, *NOTES))
    fake.behave("status?code=400", lane="complete")
    try:
        page.get_by_role("button", name="Update memory").click()
        told = page.locator("#fold-told", has_text="1 failed attempt.")
        told.wait_for(timeout=LONG_MS)
        assert "The next attempt comes in" in told.inner_text()
        assert visitor.axe() == []
    finally:
        fake.behave("normal", lane="complete")

"""Failures between the playground and its server: a message is shown, nothing typed is lost, nothing is sent twice."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.browser.support.first_look import Person, person, running
from tests.browser.support.playground import (
    COMPLETE,
    ask,
    begin,
    enter,
    make_chat,
    newest,
    say,
    sign_in,
    stored_messages,
    with_model,
)
from tests.support.fakes.upstream import FakeUpstream

pytestmark = [pytest.mark.browser, pytest.mark.nightly]
FAILS_BY_DESIGN = True
MAX_BYTES = 20_000
MODEL_SETTINGS = {"REQUEST_MAX_BYTES": str(MAX_BYTES)}
RESTARTING = {
    "status": 503,
    "headers": {"Retry-After": "1"},
    "json": {"error": {"code": "unavailable", "message": "This server is restarting. Try again in a moment."}},
}
UNHEARD = "The server is not responding."
SENDS = "**/v1/chats/*/messages"


def questions(person: Person, chat_id: str) -> list[str]:
    """Return the questions in a chat, from the API."""
    return [one["content"] for one in stored_messages(person, chat_id) if one["role"] == "user"]


def open_new_chat(visitor: Person) -> tuple[Any, str]:
    """Make a chat of one turn and open it in the page."""
    chat_id = make_chat(visitor, ("Hello.", "echo"))
    return enter(visitor, chat_id), chat_id


# Failures of the server


def test_a_restarting_server_is_waited_for(walking: Any, tmp_path: Path) -> None:
    with ExitStack() as end, ExitStack() as first:
        env = {**with_model(end.enter_context(FakeUpstream())), "REPLY_DRAIN_SECONDS": "1"}
        look = first.enter_context(running(tmp_path, **env))
        reader = end.enter_context(person(walking, look))
        cut = begin(reader, "Take your time.")
        reader.page.fill("#message", "Typed meanwhile")
        writer = end.enter_context(person(walking, look))
        page, asked = open_new_chat(writer)
        port = int(look.url.rpartition(":")[2])
        first.close()

        reader.page.get_by_text("Connection lost.").wait_for()
        say(page, "Is anybody there?")
        page.get_by_text(UNHEARD).wait_for()
        again = end.enter_context(running(tmp_path, port, **env))
        reader.look = writer.look = again
        reader.page.locator('.cm-message:last-child[data-status="incomplete"]').wait_for(timeout=60_000)
        assert newest(reader.page) == stored_messages(reader, cut)[-1]["content"].strip()
        assert "lorem" in newest(reader.page)
        assert reader.page.input_value("#message") == "Typed meanwhile"
        page.locator(".cm-reply").nth(1).wait_for(timeout=60_000)
        page.wait_for_selector(COMPLETE)
        assert questions(writer, asked) == ["Hello.", "Is anybody there?"]
        assert page.locator("#note").inner_text() == ""


def test_a_retried_message_is_stored_once(visitor: Person) -> None:
    page, chat_id = open_new_chat(visitor)

    def lose(route: Any) -> None:
        route.fetch()
        route.fulfill(**RESTARTING)

    page.route(SENDS, lose)
    say(page, "Are you there?")
    page.get_by_text(UNHEARD).wait_for()
    assert visitor.axe() == []
    page.click("#stop")
    page.get_by_text("Stopped before the server answered.").wait_for()
    assert page.input_value("#message") == "Are you there?"
    assert page.locator(".cm-user").count() == 1
    page.unroute(SENDS)
    page.press("#message", "Enter")
    page.locator(".cm-reply").nth(1).wait_for()
    page.wait_for_selector(COMPLETE)
    assert questions(visitor, chat_id) == ["Hello.", "Are you there?"]
    assert ask(page, "Are you there?")  # the same text, sent after an answer, is a new question
    assert questions(visitor, chat_id)[1:] == ["Are you there?", "Are you there?"]


def test_a_pending_message_survives_a_reload(visitor: Person) -> None:
    page, chat_id = open_new_chat(visitor)

    def lose(route: Any) -> None:
        route.fetch()
        route.abort()

    page.route(SENDS, lose)
    say(page, "Are you there?")
    page.get_by_text(UNHEARD).wait_for()
    page.unroute(SENDS)
    page.fill("#message", "And this, too?")
    page.reload()
    page.locator(".cm-message").first.wait_for()
    visitor.wait_for(lambda: "Are you there?" in page.input_value("#message"))
    assert page.input_value("#message") == "Are you there?\n\nAnd this, too?"
    page.fill("#message", "Are you there?")
    page.press("#message", "Enter")
    page.get_by_text("The reply is complete.", exact=True).wait_for(state="attached")
    assert questions(visitor, chat_id) == ["Hello.", "Are you there?"]
    assert page.locator(".cm-user").count() == 2


def test_an_unreachable_server_returns_the_message_to_the_editor(visitor: Person) -> None:
    """The wait between attempts is chosen by the server: none, here."""
    page, chat_id = open_new_chat(visitor)
    page.evaluate("window.setTimeout = ((set) => (work, ms) => set(work, Math.min(ms, 20)))(window.setTimeout)")
    page.route(SENDS, lambda route: route.fulfill(**RESTARTING))
    say(page, "Are you there?")
    page.get_by_text("This server is restarting. Try again in a moment.").wait_for()
    assert page.input_value("#message") == "Are you there?"
    page.unroute(SENDS)
    page.press("#message", "Enter")
    page.locator(".cm-reply").nth(1).wait_for()
    assert questions(visitor, chat_id) == ["Hello.", "Are you there?"]


def test_an_oversized_message_is_reported_and_can_be_shortened(visitor: Person) -> None:
    page, chat_id = open_new_chat(visitor)
    large = "many words " * (MAX_BYTES // 10)
    say(page, large)
    page.get_by_text("This message is too long.").wait_for()
    assert page.input_value("#message") == large
    page.wait_for_timeout(300)
    assert not page.locator("#newest").is_visible()  # the page is still scrolled to the end
    assert visitor.axe() == []
    assert ask(page, large[: MAX_BYTES // 2])
    assert questions(visitor, chat_id)[1:] == [large[: MAX_BYTES // 2]]
    assert page.locator("#note").inner_text() == ""


# Failures of the network


def test_a_message_sent_offline_is_delivered_when_online(visitor: Person) -> None:
    page, chat_id = open_new_chat(visitor)
    page.context.set_offline(True)
    page.get_by_text("You are offline. What you type is kept").wait_for()
    say(page, "Are you there?")
    page.get_by_text(UNHEARD).wait_for()
    page.context.set_offline(False)
    page.locator(".cm-reply").nth(1).wait_for()
    page.wait_for_selector(COMPLETE)
    assert questions(visitor, chat_id) == ["Hello.", "Are you there?"]


# Deleted chats and ended sessions


def test_a_chat_deleted_elsewhere_keeps_the_draft(visitor: Person) -> None:
    page, chat_id = open_new_chat(visitor)
    visitor.look.api.delete(f"/v1/chats/{chat_id}").raise_for_status()
    say(page, "Are you there?")
    page.get_by_text("This chat was deleted or is not yours").wait_for()
    page.get_by_role("heading", name="New chat").wait_for()
    assert page.input_value("#message") == "Are you there?"
    assert page.locator(f'.cm-chat[data-id="{chat_id}"]').count() == 0
    assert page.locator(".cm-message").count() == 0
    assert visitor.axe() == []
    page.press("#message", "Enter")
    page.wait_for_selector(COMPLETE)
    assert questions(visitor, page.url.rpartition("=")[2]) == ["Are you there?"]

    page.goto("about:blank")
    visitor.go(f"/playground/#chat={chat_id}")  # by an old link
    page.get_by_text("This chat was deleted or is not yours").wait_for()
    page.get_by_role("heading", name="Start chatting and watch the memory build").wait_for()


def test_a_signed_out_user_signs_in_and_continues(visitor: Person) -> None:
    page = visitor.page
    visitor.go("/playground/")
    sign_in(visitor)
    ask(page, "Hello.")
    visitor.wait_for(lambda: "#chat=" in page.url)
    token = page.evaluate("sessionStorage.getItem('cm-token')")
    headers = {"Authorization": f"Bearer {token}"}
    page.fill("#message", "Are you there?")
    httpx.delete(f"{visitor.look.url}/v1/auth/token", headers=headers).raise_for_status()
    # The memory panel may notice first, which hides the field.
    page.evaluate("document.getElementById('composer').requestSubmit()")
    page.get_by_text("This token is invalid or has expired.").wait_for()
    assert page.locator(".cm-message, .cm-chat").count() == 0
    assert visitor.axe() == []
    sign_in(visitor)
    page.locator(".cm-user .cm-body", has_text="Hello.").wait_for()
    visitor.wait_for(lambda: page.input_value("#message") == "Are you there?")
    page.press("#message", "Enter")
    page.locator(".cm-reply").nth(1).wait_for()
    page.wait_for_selector(COMPLETE)
    assert page.locator(".cm-user").count() == 2

    page.fill("#message", "Mine alone")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Try the memory").wait_for()
    assert page.input_value("#message") == ""
    assert page.evaluate("sessionStorage.length") == 0
    assert page.locator(".cm-message, .cm-chat").count() == 0
    page.reload()
    assert page.input_value("#message") == ""


def test_an_ended_or_renewed_session_is_reported(keeper: Person, walking: Any) -> None:
    page = keeper.page
    keeper.go("/playground/")
    ask(page, "Hello.")
    with person(walking, keeper.look) as elsewhere:
        elsewhere.sign_in()
        page.context.add_cookies(elsewhere.page.context.cookies())
    say(page, "Are you there?")
    page.get_by_text("You signed in again in another window.").wait_for()
    assert page.input_value("#message") == "Are you there?"
    page.reload()
    page.locator(".cm-message").first.wait_for()
    assert page.input_value("#message") == "Are you there?"
    page.press("#message", "Enter")
    page.locator(".cm-reply").nth(1).wait_for()
    page.wait_for_selector(COMPLETE)

    page.fill("#message", "And now?")
    page.context.clear_cookies(name="sessionid")
    # The memory panel may notice first, which hides the field.
    page.evaluate("document.getElementById('composer').requestSubmit()")
    page.get_by_text("Your session has ended.").wait_for()
    keeper.wait_for(lambda: page.input_value("#message") == "And now?")
    assert page.locator(".cm-message, .cm-chat").count() == 0

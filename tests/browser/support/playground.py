"""Actions of users in the playground, by the labels on its page."""

import json
from typing import Any

from tests.browser.support.first_look import Person
from tests.support.fakes.upstream import FakeUpstream

VARIANTS = {
    "echo": {"model": "echo"},
    "slow": {"model": "normal?deltas=80&rate=20"},
    "broken": {"model": "status?code=400"},
}
REPLIES = ".cm-reply"
COMPLETE = '.cm-message:last-child[data-status="complete"]'


def enter(person: Person, chat_id: str | None = None) -> Any:
    """Open the playground as the demo user, in a chat or with a new one. Returns the page."""
    chat = f"&chat={chat_id}" if chat_id else ""
    person.go(f"/playground/#token={person.look.demo_token}{chat}")
    come_in(person.page)
    person.page.wait_for_selector('body[data-view="chat"] #variant option', state="attached")
    if chat_id:
        person.page.wait_for_selector(".cm-message")
    return person.page


def come_in(page: Any) -> None:
    """Continue as the account of the opened link, if the page asks."""
    page.wait_for_selector('#offer-yes:visible, body[data-view="chat"]', state="attached")
    if page.locator("#offer-yes").is_visible():
        page.click("#offer-yes")


def sign_in(person: Person, password: str = "") -> None:
    """Sign in by name and password, through the page's own form."""
    person.page.fill("#username", "admin")
    person.page.fill("#password", password or person.look.admin_password)
    person.page.locator("#by-name button").click()


def say(page: Any, message: str) -> None:
    """Send a message by keyboard, without waiting for the reply."""
    page.fill("#message", message)
    page.press("#message", "Enter")


def ask(page: Any, message: str) -> str:
    """Send a message, wait for its complete reply, and return the reply's text."""
    before = page.locator(REPLIES).count()
    say(page, message)
    page.wait_for_function(
        "([selector, before]) => document.querySelectorAll('.cm-reply').length > before"
        " && document.querySelector(selector)",
        arg=[COMPLETE, before],
    )
    return newest(page)


def newest(page: Any) -> str:
    """Return the text of the newest message."""
    return str(page.locator(".cm-message:last-child .cm-body").inner_text())


def make_chat(person: Person, *messages: tuple[str, str], title: str = "") -> str:
    """Make a chat of the demo user's with these messages, through the API. The replies come from the model."""
    api = person.look.api
    chat_id = str(api.post("/v1/chats", json={"title": title}).json()["id"])
    for message, variant in messages:
        body = {"message": message, "stream": False, **({"model_variant": variant} if variant else {})}
        answer = api.post(f"/v1/chats/{chat_id}/messages", json=body)
        assert answer.status_code == 200, answer.text
    return chat_id


def begin(person: Person, message: str) -> str:
    """Open a new chat, ask the slow model, and wait until part of its reply is there. Returns the chat's id."""
    chat_id = make_chat(person, ("Hello.", "echo"))
    page = enter(person, chat_id)
    page.select_option("#variant", "slow")
    say(page, message)
    page.locator('.cm-message:last-child[data-status="streaming"] .cm-body', has_text="lorem").wait_for()
    return chat_id


def stored_messages(person: Person, chat_id: str) -> list[dict[str, str]]:
    """Return the messages of a chat, from the API."""
    found: list[dict[str, str]] = person.look.api.get(f"/v1/chats/{chat_id}/messages").json()["results"]
    return found


def with_model(fake: FakeUpstream) -> dict[str, str]:
    """Return settings under which `fake` answers, immediately unless another variant is chosen."""
    return {
        "OPENAI_BASE_URL": fake.base_url,
        "OPENAI_API_KEY": "sk-nobody",
        "MODEL_VARIANTS": json.dumps(VARIANTS),
        "DEFAULT_MODEL_VARIANT": "echo",
    }

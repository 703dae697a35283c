"""Memory updates that take as long as a real summarizer's, that fail, or that no worker runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.support.first_look import FirstLook, Person, running
from tests.browser.support.playground import enter, with_model
from tests.support.fakes.upstream import FakeUpstream

pytestmark = pytest.mark.browser
LONG_MS = 60_000
GAVE_UP_ONCE_MS = 13_000
"""After this time, the panel once said wrongly that there was nothing to summarize."""


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeUpstream]:
    with FakeUpstream() as fake:
        yield fake


@pytest.fixture(scope="module")
def first_look(fake: FakeUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstLook]:
    with running(tmp_path_factory.mktemp("slow"), **with_model(fake)) as look:
        yield look


def test_a_slow_update_shows_progress_until_it_is_published(visitor: Person, fake: FakeUpstream) -> None:
    page = enter(visitor, _long_chat(visitor))
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
    assert visitor.troubles() == []


def test_a_failing_update_says_why_and_that_it_is_retried(visitor: Person, fake: FakeUpstream) -> None:
    page = enter(visitor, _long_chat(visitor))
    fake.behave("status?code=400", lane="complete")
    try:
        page.get_by_role("button", name="Update memory").click()
        told = page.locator("#fold-told", has_text="1 failed attempt.")
        told.wait_for(timeout=LONG_MS)
        assert "The next attempt comes in" in told.inner_text()
        assert visitor.axe() == []
    finally:
        fake.behave("normal", lane="complete")


def _long_chat(person: Person) -> str:
    api = person.look.api
    chat_id = str(api.post("/v1/chats", json={"title": "Slow"}).json()["id"])
    for number in range(8):
        body = {"message": f"Note {number}: the lamp of berth {number} is lit.", "stream": False}
        api.post(f"/v1/chats/{chat_id}/messages", json=body).raise_for_status()
    return chat_id

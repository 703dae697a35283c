"""Where the playground looks in a chat whose replies are longer than the window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.support.first_look import FirstLook, Person, running
from tests.browser.support.playground import COMPLETE, ask, enter, say, with_model
from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.upstream import FakeUpstream

pytestmark = pytest.mark.browser
TURNS = 6
FROM_END = """
(one => Math.round(one.scrollHeight - one.clientHeight - one.scrollTop))(document.getElementById("scroller"))
"""
TABLE = "| Day | Train | Price |\n|---|---|---|\n" + "\n".join(
    f"| {day} | IC {200 + day} | {day * 7} |" for day in range(18)
)
CODE = "```python\n" + "\n".join(f"total += price_of({day})  # day {day}" for day in range(24)) + "\n```"
LONG = f"# The plan\n\n{TABLE}\n\nAnd how it adds up:\n\n{CODE}\n\n" + "\n\n".join(
    f"{day}. A paragraph about this day, long enough to take more than one line in the window. " * 2
    for day in range(6)
)
"""Two screens of Markdown."""


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeUpstream]:
    with FakeUpstream() as fake:
        yield fake


@pytest.fixture(scope="module")
def first_look(tmp_path_factory: pytest.TempPathFactory, fake: FakeUpstream) -> Iterator[FirstLook]:
    with running(tmp_path_factory.mktemp("scrolling"), **with_model(fake)) as look:
        yield look


def from_end(page: Any) -> int:
    """Return how many pixels of the chat are below the window, once everything is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.wait_for_timeout(100)
    return int(page.evaluate(FROM_END))


def test_long_replies_keep_the_view_at_the_end(visitor: Person, fake: FakeUpstream) -> None:
    page = enter(visitor)
    distances = []
    for number in range(TURNS):
        fake.script("stream", Behaviour(text=LONG, rate=40))
        ask(page, f"Question {number}.")
        distances.append(from_end(page))
    last = page.locator(".cm-message:last-child")
    assert last.bounding_box()["height"] > 2 * page.locator("#scroller").bounding_box()["height"]
    assert distances == [0] * TURNS
    assert not page.locator("#newest").is_visible()

    # Whoever scrolled up and sends sees the question, and follows its reply.
    page.evaluate("document.getElementById('scroller').scrollTop = 300")
    page.locator("#newest").wait_for()
    fake.script("stream", Behaviour(text=LONG, rate=40))
    say(page, "And one more.")
    page.locator(".cm-user", has_text="And one more.").wait_for()
    page.locator(f"{COMPLETE} table").wait_for()
    assert from_end(page) == 0
    assert visitor.troubles() == []

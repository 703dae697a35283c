"""A summarizer whose answers have odd metadata: they are published all the same, and no failure goes unnoticed."""

from typing import Any

import pytest

from chatmemory.llm import retry
from chatmemory.llm.openai import reading
from chatmemory.llm.openai.reading import Style
from conversations.models import Chat
from memory.folding.request import request_resummarize
from tests.support.exhaustive import first_of
from tests.support.factories import add_turns, make_chat
from tests.support.fakes.odd import odd_told
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import assert_sound, revisions, run, turn
from tests.upstream.talking import STYLES

WORST = {"true", "huge", "long", "nul", "surrogate", "objects"}
"""The worst odd values; `tests.faults.test_upstream_odd` tests all of them, in every place."""
SUMMARY = "They spoke of lamps, boats and the harbour in the fog."


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try each call only once, so that no test waits for a retry."""
    monkeypatch.setattr(retry, "TRIES", 1)


def asked_anew(chat: Chat, first: int) -> None:
    """Add two turns and request a fold of them."""
    add_turns(chat, [turn(first), turn(first + 1)])
    request_resummarize(chat, "update")


@pytest.mark.promise("P9")
@pytest.mark.django_db
@pytest.mark.parametrize("style", first_of(STYLES))
def test_whatever_a_summarizer_tells_of_its_answer_it_is_published(
    upstream: FakeUpstream, settings: Any, style: Style
) -> None:
    settings.OPENAI_API_STYLE = style
    chat = make_chat()
    add_turns(chat, [turn(number) for number in range(1, 5)])
    for number, odd in enumerate((one for one in odd_told(style, SUMMARY) if one.value in WORST), start=1):
        upstream.behave(odd.behaviour, lane="complete")
        asked_anew(chat, 2 * number + 3)
        report = run(chat)
        assert (report.outcome, report.error) == ("done", ""), odd.value
        assert report.published, odd.value
        made = revisions(chat)[-1]
        assert len(made.model) <= reading.MAX_MODEL_CHARS
        assert made.model.isprintable()
        assert (made.input_tokens, made.output_tokens, made.cost_usd) == (0, 0, None), odd.value
    assert_sound(chat)

"""Odd values in every field of an upstream's answer: an accurate answer within seconds, and nothing odd stored.

`tests/api/test_odd_answers.py` has the fields that describe an answer. Here are all fields of streams, of whole
answers, and of the objects requested from a summarizer.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from chatmemory.llm.openai import client as upstream_client
from chatmemory.llm.openai.reading import Style
from conversations.models import Chat
from memory.folding.request import request_resummarize
from memory.folding.summarizer import NO_FAILURES
from memory.models import ConversationBrief, SummaryRevision
from tests.api.odd_answers import ask_odd
from tests.support.exhaustive import effort
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.fakes import objects
from tests.support.fakes.behaviours import Behaviour, lorem
from tests.support.fakes.odd import odd_answers, odd_objects, odd_streams
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import run_fold
from tests.support.invariants import check_all
from tests.support.live_server import Client
from tests.upstream.talking import STYLES

pytestmark = pytest.mark.slow

TURNS_A_CHAT = 15
TURN = (lorem(200), lorem(200))
STRIDE = 37
"""The short run takes one in so many: a prime, so that every field and every value has its turn."""
CODES = ["AB-1234", "CD-5678"]
OBJECTS: dict[str, dict[str, Any]] = {
    "progressive": {
        "important_data": {
            "user_preferences": {"notes": "in order"},
            "important_facts": CODES,
            "entities": ["Ada"],
        },
        "summary": "They spoke of lamps.",
    },
    "hierarchical": {
        "facts": [{"key": "code", "value": CODES[0], "category": "ENTITY"}],
        "removed": ["gone"],
        "narrative": "They spoke of lamps.",
    },
    "card": objects.card(CODES),
}
"""What a good summarizer would answer."""


def some(items: Iterator[Any]) -> Iterator[Any]:
    """Return all items, or one in `STRIDE` in the short run."""
    return islice(items, 0, None, effort(STRIDE, 1))


@pytest.mark.promise("P9")
@pytest.mark.usefixtures("check_invariants")
@pytest.mark.parametrize("style", STYLES)
def test_odd_streams_end_with_an_honest_status(
    alice: Client, upstream: FakeUpstream, settings: Any, style: Style
) -> None:
    settings.OPENAI_API_STYLE = style
    settings.RATE_LIMITS = False
    chat = None
    for count, odd in enumerate(some(odd_streams(style))):
        message = ask_odd(alice, upstream, odd, chat if count % TURNS_A_CHAT else None)
        chat = message["chat_id"]
        assert bool(message["content"]) == (message["status"] != "failed"), odd
        assert (message["error"] is None) == (message["status"] == "complete"), odd
        assert "\0" not in str(message)


@pytest.mark.promise("P9")
@pytest.mark.django_db
@pytest.mark.parametrize("policy", ["chunked", *OBJECTS])
def test_a_fold_with_something_odd_is_published_or_refused(
    upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """In any place of the whole answer, or of the object that the summarizer is asked for."""
    monkeypatch.setattr(upstream_client, "PAUSES", ())
    chat = make_chat(policy=policy)
    add_turns(chat, [TURN] * 12)  # more than any policy's window
    if policy == "chunked":
        answers = [(str(odd), odd.behaviour) for odd in odd_answers("responses", "They spoke of lamps and boats.")]
    else:
        answers = [(what, Behaviour(text=text)) for what, text in odd_objects(OBJECTS[policy])]
    for what, behaviour in some(iter(answers)):
        upstream.behave(behaviour, lane="complete")
        folded_soundly(chat, what)
    check_all()


def folded_soundly(chat: Chat, what: object) -> None:
    """Two more turns are folded, or the failure is recorded; in either case the stored memory is clean."""
    add_turns(chat, [TURN] * 2)
    request_resummarize(chat, "update")
    # Each answer is the first attempt: after five failures, the built-in summarizer would take over.
    ConversationBrief.objects.filter(chat=chat).update(**NO_FAILURES)
    report = run_fold(chat)
    assert report.outcome in ("done", "waiting"), (what, report)
    brief = brief_of(chat)
    assert (report.outcome == "waiting") == (brief.last_error is not None), what
    last = SummaryRevision.objects.filter(chat=chat).order_by("-version").first()
    for stored in (brief, last):
        text = f"{stored.global_summary} {stored.state}" if stored else ""
        assert "\0" not in text, what
        assert text.encode().decode() == text, what

"""A summarizer that reasons before its first word: it gets room for that, and the configured effort."""

from typing import Any

import pytest

from chatmemory.llm.known_models import ROOM
from chatmemory.llm.openai.reading import Style
from conversations.models import Chat
from memory.folding.request import request_resummarize
from memory.policies import POLICIES
from tests.support.exhaustive import first_of
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import revisions, run_fold, wait_over
from tests.upstream.talking import STYLES

pytestmark = [pytest.mark.django_db, pytest.mark.nightly]

THINKS = 6_000
"""Reasoning tokens: more than any policy's output limit without room to reason, which is four answers."""
LIMITS = ("max_output_tokens", "max_completion_tokens", "max_tokens")


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest, settings: Any, upstream: FakeUpstream) -> Style:
    """The upstream's API style. The summarizer is not known to be a reasoning model."""
    settings.OPENAI_API_STYLE = request.param
    settings.MEMORY_SUMMARIZER_MODEL = "llama-3.1"
    chosen: Style = request.param
    return chosen


def folded_chat(policy: str) -> Chat:
    """A chat after an attempt to fold it."""
    chat = make_chat(policy=policy)
    add_turns(chat, [(f"Note AB-{number:04}. {lorem(200)}", f"AB-{number:04} is noted.") for number in range(1, 21)])
    request_resummarize(chat, "update")
    run_fold(chat)
    return chat


def limit_of(body: dict[str, Any]) -> int:
    (limit,) = (body[name] for name in LIMITS if name in body)
    return int(limit)


def effort_of(body: dict[str, Any], style: Style) -> str | None:
    return (body.get("reasoning") or {}).get("effort") if style == "responses" else body.get("reasoning_effort")


@pytest.mark.parametrize("policy", first_of(POLICIES))
def test_a_model_that_reasons_has_room_for_it(upstream: FakeUpstream, settings: Any, style: Style, policy: str) -> None:
    upstream.behave("normal", lane="complete", thinks=THINKS)
    cut_off = folded_chat(policy)
    assert (brief_of(cut_off).last_error or {}).get("code") == "truncated"
    before = upstream.requests[0].body
    upstream.clear()
    settings.MEMORY_SUMMARIZER_EFFORT = "medium"
    wait_over(cut_off)
    assert run_fold(cut_off).outcome == "done"
    brief = brief_of(cut_off)
    assert (brief.last_error, brief.degraded) == (None, False)
    last = revisions(cut_off)[-1]
    assert last.output_tokens > THINKS, "reasoning is paid for"
    sent = upstream.requests[0].body
    assert effort_of(sent, style) == "medium"
    assert limit_of(sent) == limit_of(before) + ROOM["medium"]

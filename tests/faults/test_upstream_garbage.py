"""An upstream that sends garbage: never a 500, only clean text is stored, and the chat goes on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm import retry
from chatmemory.llm.openai.stream_parser import Style
from conversations.models import Message
from memory.folding.request import request_resummarize
from memory.models import ConversationBrief, SummaryRevision
from tests.api.talking import say
from tests.faults.bench.garbage import answers, often, streams
from tests.support.exhaustive import effort
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.fakes.behaviours import Behaviour, lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import run, wait_over
from tests.support.invariants import check_all
from tests.support.live_server import Client, joined
from tests.upstream.talking import STYLES

pytestmark = pytest.mark.slow

TURNS_A_CHAT = 15
TURN = (lorem(200), lorem(200))
ENDINGS = {"message.completed": "complete", "message.incomplete": "incomplete", "message.failed": "failed"}


def sent(body: bytes) -> Behaviour:
    """Make an upstream that sends exactly this."""
    return Behaviour("raw", text=body.decode("latin-1"), after=-1)


@pytest.mark.promise("P9")
@pytest.mark.usefixtures("house")
@pytest.mark.parametrize("style", STYLES)
def test_whatever_is_streamed_is_answered_and_stored_clean(
    alice: Client,
    upstream: FakeUpstream,
    settings: Any,
    style: Style,
) -> None:
    settings.OPENAI_API_STYLE = style
    settings.RATE_LIMITS = False  # thousands of examples exceed any limit
    chat: list[str] = []

    @often(effort(70, 3000))
    @given(body=streams(style), streamed=st.booleans())
    def one(body: bytes, streamed: bool) -> None:
        upstream.behave(sent(body), lane="stream")
        message = _asked(alice, chat[-1] if len(chat) % TURNS_A_CHAT else None, streamed)
        chat.append(message["chat_id"])
        _assert_clean(message["content"])
        _assert_clean(str(message))
        assert bool(message["content"]) == (message["status"] != "failed")
        assert (message["error"] is None) == (message["status"] == "complete")
        assert Message.objects.get(pk=message["id"]).content == message["content"]

    one()
    upstream.behave("normal?text=There.")
    assert alice.ask("And now?", chat[-1])["message"]["content"] == "There."


def _asked(client: Client, chat: str | None, streamed: bool) -> dict[str, Any]:
    """Return the final message of a turn, streamed or not."""
    found: dict[str, Any]
    if streamed:
        events = say(client, "My question", chat)
        found = events[-1].data["message"]
        assert ENDINGS[events[-1].name] == found["status"]
        assert joined(events) == found["content"]
        return found
    body = {"message": "My question", "stream": False, **({"chat_id": chat} if chat else {})}
    answer = client.post("message" if chat else "message/first", json=body)
    assert answer.status_code in (200, 502), answer.text
    told = answer.json()
    found = (told if answer.status_code == 200 else told["error"]["details"])["message"]
    return found


@pytest.mark.promise("P9")
@pytest.mark.django_db
@pytest.mark.parametrize("policy", ["chunked", "progressive", "hierarchical"])
def test_whatever_a_summarizer_answers_is_taken_clean_or_refused(
    upstream: FakeUpstream,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
) -> None:
    monkeypatch.setattr(retry, "TRIES", 1)
    chat = make_chat(policy=policy)
    add_turns(chat, [TURN] * 12)  # more than any policy's window

    @often(effort(25, 600))
    @given(body=answers("responses"))
    def one(body: bytes) -> None:
        add_turns(chat, [TURN] * 2)
        request_resummarize(chat, "update")
        wait_over(chat)
        upstream.behave(sent(body), lane="complete")
        report = run(chat)
        assert report.outcome in ("done", "failed"), report
        _assert_clean(_remembered(brief_of(chat)))

    one()
    for revision in SummaryRevision.objects.filter(chat=chat):
        _assert_clean(f"{revision.global_summary} {revision.state}")
    check_all()


def _remembered(brief: ConversationBrief) -> str:
    return f"{brief.global_summary} {brief.state} {brief.last_error}"


def _assert_clean(text: str) -> None:
    """Check that the text can be stored in any database and sent to any client."""
    assert "\0" not in text
    assert text.encode().decode() == text

"""A model's server finds a prompt too long: it is asked once more, with a smaller one."""

from conversations.models import Chat
from tests.api.talking import Turn, say
from tests.support.factories import add_turns
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

TOO_LONG = "status?code=400&error=context_length_exceeded"
WORDS = [(f"Question {number}: " + "where is it? " * 30, "It is on its way. " * 40) for number in range(30)]


def long_chat(alice: Client) -> str:
    """Return a chat whose turns fill a prompt."""
    chat = alice.ask("My order is AB-1234.")["chat_id"]
    add_turns(Chat.objects.get(pk=chat), WORDS)
    return str(chat)


def test_prompt_that_is_too_long_is_sent_again_with_a_smaller_budget(alice: Client, upstream: FakeUpstream) -> None:
    chat = long_chat(alice)
    upstream.script("stream", TOO_LONG, "normal")
    events = say(alice, "Which order did I mean?", chat, sources=[{"title": "A", "text": "word " * 900}])
    assert events[-1].name == "message.completed"
    sent = alice.get(f"{Turn.of(events[0].data).path}/context").json()
    first, second = (sum(len(text) for _, text in one.said) for one in upstream.requests[-2:])
    assert second < first
    assert upstream.requests[-1].said[-1][1].endswith("Which order did I mean?")
    assert sent["verified"] is True
    assert sent["tokens"] <= sent["budget"] < 1500
    assert sent["refused_tokens"] > sum(section["tokens"] for section in sent["sections"])
    assert alice.ask("And now?", chat)["message"]["status"] == "complete"


def test_prompt_that_is_still_too_long_fails_and_says_so(alice: Client, upstream: FakeUpstream) -> None:
    chat = long_chat(alice)
    upstream.script("stream", TOO_LONG, TOO_LONG)
    last = say(alice, "Which order did I mean?", chat)[-1]
    assert (last.name, last.data["error"]["code"]) == ("message.failed", "context_length_exceeded")
    assert len(upstream.requests) == 3


def test_prompt_that_cannot_be_smaller_is_sent_once(alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", TOO_LONG)
    assert say(alice, "word " * 2000)[-1].name == "message.failed"
    assert len(upstream.requests) == 1

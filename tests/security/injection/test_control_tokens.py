"""Control tokens of chat templates, written by users, sources or summaries, reach no request to the upstream.

Each text takes the whole way, over HTTP into the product and over the wire out of it. The stored text is unchanged.
"""

from typing import Any

import pytest
from django.contrib.auth.models import User

from chatmemory.llm import registry
from chatmemory.llm.protocol import Upstream, Variant
from chatmemory.text.cleaning import disarm
from conversations.models import Message
from memory.folding.request import request_resummarize
from memory.policies import POLICIES
from tests.security.injection.answers import answer_with
from tests.security.injection.chats import chat_saying
from tests.security.injection.corpus import CONTROL_TOKENS
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.fakes.behaviours import Behaviour, lorem
from tests.support.fakes.connection import Request
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import run_fold
from tests.support.live_server import Client

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("sound")]

HOSTILE = "All of them: " + " x ".join(CONTROL_TOKENS) + " and code: `<p>a</s></p>`."


def assert_disarmed(requests: list[Request]) -> None:
    """Assert that no request contains one of the tokens, and that the disarmed text can still be read."""
    assert requests
    for request in requests:
        said = request.body.get("instructions", ""), *(text for _, text in request._messages())
        found = [token for token in CONTROL_TOKENS if any(token in text for text in said)]
        assert not found, (request.path, found)


@pytest.mark.promise("P23")
@pytest.mark.parametrize("turns_as", ["messages", "text"])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_prompt_has_a_foreign_control_token(
    policy: str, turns_as: str, alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    settings.MEMORY_TURNS_AS = turns_as
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 20_000
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 10**6
    chat = chat_saying(policy, HOSTILE)
    assert alice.patch(f"chats/{chat.pk}", json={"instructions": HOSTILE}).status_code == 200
    upstream.clear()
    upstream.behave(Behaviour(text=HOSTILE), lane="stream")
    body = {"sources": [{"title": HOSTILE[:1000], "text": HOSTILE}], "instructions": HOSTILE}
    told = alice.ask(HOSTILE, str(chat.pk), **body)
    assert told["message"]["content"] == HOSTILE, "what is stored is what was said"
    assert Message.objects.get(pk=told["user_message_id"]).content == HOSTILE
    calls = upstream.calls("stream")
    assert_disarmed(calls)
    assert disarm(HOSTILE) in calls[0].instructions
    assert calls[0].said[-1] == ("user", disarm(HOSTILE))
    assert "x </s > x" in calls[0].text, "it can still be read"


def test_a_prompt_is_rebuilt_as_it_was_sent_though_the_setting_changed(
    alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    first = alice.ask(HOSTILE)
    settings.UPSTREAM_CONTROL_TOKENS = "send"
    second = alice.ask(HOSTILE, first["chat_id"])
    disarmed_call, plain = upstream.calls("stream")
    assert_disarmed([disarmed_call])
    assert plain.said[-1] == ("user", HOSTILE)
    for told in (first, second):
        path = f"chats/{first['chat_id']}/messages/{told['message']['id']}/context"
        assert alice.get(path).json()["exact"] is True
    settings.UPSTREAM_CONTROL_TOKENS = "auto"
    again = alice.post(
        f"chats/{first['chat_id']}/messages/{second['message']['id']}/regenerate", json={"stream": False}
    )
    assert again.status_code == 200
    assert_disarmed(upstream.calls("stream")[-1:])


@pytest.mark.promise("P23")
@pytest.mark.parametrize("policy", POLICIES)
def test_control_tokens_never_reach_the_summarizer(policy: str, upstream: FakeUpstream, transactional_db: None) -> None:
    """A model that repeats a shown token is not refused for a new order."""
    chat = make_chat(policy=policy)
    repeated = answer_with(policy, f"They spoke of {disarm(CONTROL_TOKENS[0])}.")
    upstream.behave(Behaviour(text=repeated), lane="complete")
    for _ in range(2):
        add_turns(chat, [(HOSTILE, f"{HOSTILE} {lorem(40)}")] * 8)
        request_resummarize(chat, "update")
        assert run_fold(chat).outcome == "done"
    assert_disarmed(upstream.calls("complete"))
    assert disarm(CONTROL_TOKENS[0]) in upstream.calls("complete")[-1].text
    assert brief_of(chat).last_error is None


def test_control_tokens_of_clients_are_disarmed(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.MEMORY_MIN_RETAINED = 0  # the answer has nothing of what was said
    said = [{"role": role, "content": HOSTILE} for role in ("system", "user", "assistant", "user")]
    assert alice.post("ask", json={"messages": said, "stream": False}).status_code == 200
    upstream.behave(Behaviour(text="They talked."), lane="complete")
    body = {"messages": said[1:3] * 4, "previous_summary": HOSTILE}
    assert alice.post("summarize", json=body).status_code == 200
    assert_disarmed(upstream.requests)


def test_control_tokens_in_excerpts_are_disarmed(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 1500
    settings.MEMORY_K_RAW_TURNS = 1
    chat = make_chat(User.objects.get(username="alice"))
    add_turns(chat, [("The zeppelin password", f"The zeppelin password: {CONTROL_TOKENS[0]} hangar")])
    add_turns(chat, [(lorem(150), lorem(150))] * 12)
    message = alice.ask("What was the zeppelin password?", str(chat.pk))["message"]
    calls = upstream.calls("stream")
    assert_disarmed(calls)
    assert f"{disarm(CONTROL_TOKENS[0])} hangar" in calls[-1].text
    past = alice.get(f"chats/{chat.pk}/messages/{message['id']}/context").json()
    assert past["exact"] is True
    shown = [section["text"] for section in past["sections"] if "hangar" in section["text"]]
    assert [disarm(text) for text in shown] == shown != [], "staff and clients are shown what was sent"


@pytest.mark.parametrize(
    ("wanted", "url", "does"),
    [
        ("auto", "", False),
        ("auto", "https://api.openai.com/v1", False),
        ("auto", "https://api.openai.com/v1/", False),
        ("auto", "https://eu.api.openai.com/v1", False),
        ("auto", "https://API.openai.com:443/v1", False),
        ("auto", "https://api.openai.com.evil.example/v1", True),
        ("auto", "https://fakeapi.openai.com.example/v1", True),
        ("auto", "https://evilapi.openai.com/v1", True),
        ("auto", "http://127.0.0.1:8080/v1", True),
        ("disarm", "", True),
        ("disarm", "https://api.openai.com/v1", True),
        ("send", "http://127.0.0.1:8080/v1", False),
    ],
)
def test_only_known_modules_disarm_control_tokens(settings: Any, wanted: str, url: str, does: bool) -> None:
    settings.OPENAI_API_KEY, settings.OPENAI_BASE_URL = "sk-x", url
    settings.UPSTREAM_CONTROL_TOKENS = wanted
    assert registry.disarms_control_tokens(Variant("arco", "m")) is does
    elsewhere = Variant("own", "m", upstream=Upstream("http://home/v1", "", "chat"))
    openai = Variant("arco", "m", fallback=elsewhere)
    assert registry.disarms_control_tokens(openai) is (wanted != "send"), "the fallback gets the same prompt"

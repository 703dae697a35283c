"""Chat Completions with OpenAI's own SDK in its strict mode: every field of every answer is checked."""

from typing import Any

import openai
import pytest
from openai import OpenAI

from chatmemory.llm.protocol import Deadlines
from conversations.models import Chat, ChatCompletion, Message
from tests.api.talking import sdk
from tests.support.exhaustive import first_row_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import run_fold
from tests.support.live_server import Client

PLAIN = {"model": "arco"}


class Talk:
    """A client that keeps the whole history and sends it each time, as most do."""

    def __init__(self, ask: OpenAI, **options: Any) -> None:
        self.ask, self.options = ask, options
        self.messages: list[dict[str, str]] = []

    def say(self, text: str, **options: Any) -> Any:
        self.messages.append({"role": "user", "content": text})
        raw = self.ask.chat.completions.with_raw_response.create(
            messages=self.messages,  # type: ignore[arg-type]  # plain dicts, as most clients send
            **{**PLAIN, **self.options, **options},
        )
        answer = raw.parse().choices[0].message.content
        assert answer is not None
        self.messages.append({"role": "assistant", "content": answer})
        return raw

    def decision(self, text: str, **options: Any) -> str:
        return str(self.say(text, **options).headers["x-chatmemory-conversation"])


def test_a_completion_has_all_that_the_sdk_expects(ask: OpenAI, upstream: FakeUpstream) -> None:
    raw = ask.chat.completions.with_raw_response.create(
        messages=[{"role": "user", "content": "Good morning"}], model="arco"
    )
    made = raw.parse()
    assert made.choices[0].message.content == "You said: Good morning"
    assert made.choices[0].finish_reason == "stop"
    assert made.model == "arco"
    assert made.usage is not None
    assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens
    assert made.id.startswith("chatcmpl-")
    for name in ("x-request-id", "openai-processing-ms", "openai-version", "x-ratelimit-remaining-requests"):
        assert raw.headers[name], name


def test_a_stream_says_the_same_and_ends_with_the_usage(ask: OpenAI, upstream: FakeUpstream) -> None:
    chunks = list(
        ask.chat.completions.create(
            messages=[{"role": "user", "content": "Good morning"}],
            model="arco",
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    said = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
    assert said == "You said: Good morning"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [one.choices[0].finish_reason for one in chunks if one.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert not chunks[-1].choices
    assert len({one.id for one in chunks}) == 1


def test_an_edited_message_becomes_a_branch_that_shares_nothing(ask: OpenAI, upstream: FakeUpstream) -> None:
    talk = Talk(ask)
    for text in ("One", "Two", "Three"):
        talk.say(text)
    edited = Talk(ask)
    edited.messages = talk.messages[:4]
    raw = edited.say("Four")
    assert raw.headers["x-chatmemory-conversation"] == "branched"
    history_tokens = int(raw.headers["x-chatmemory-history-tokens"])
    assert 0 < history_tokens == int(raw.headers["x-chatmemory-said-tokens"])
    branch = Chat.objects.get(pk=raw.headers["x-chatmemory-conversation-id"])
    assert list(branch.messages.order_by("seq").values_list("content", flat=True)) == [
        "One", "You said: One", "Two", "You said: Two", "Four", "You said: Four",
    ]  # fmt: skip
    replies = branch.messages.filter(role="assistant")
    assert {one.reply_to and one.reply_to.chat_id for one in replies} == {branch.pk}
    again = Talk(ask)
    again.messages = talk.messages[:2]
    assert again.decision("Two") == "branched", "asked for again, where the client names nothing"
    # All conversations continue separately.
    assert talk.decision("Five") == "continued"
    assert edited.decision("Six") == "continued"
    assert Chat.objects.count() == 3


def test_a_named_conversation_replaces_its_last_answer_and_goes_on_in_its_branch(
    ask: OpenAI, upstream: FakeUpstream
) -> None:
    named: dict[str, Any] = {"metadata": {"session_id": "s1"}}
    talk = Talk(ask, **named)
    talk.say("One")
    talk.say("Two")
    again = Talk(ask, **named)
    again.messages = talk.messages[:2]
    assert again.decision("Two") == "regenerated"
    assert Chat.objects.count() == 1
    assert Message.objects.filter(superseded_by__isnull=False).count() == 1
    assert again.decision("Three") == "continued"
    edited = Talk(ask, **named)
    edited.messages = talk.messages[:2]
    assert edited.decision("Other") == "branched"
    assert edited.decision("More") == "continued"
    assert Chat.objects.count() == 2


def test_completions_never_enter_another_users_chat(
    alice: Client, bob: Client, ask: OpenAI, upstream: FakeUpstream
) -> None:
    talk = Talk(ask)
    talk.say("One")
    mine = Chat.objects.get()
    with sdk(bob) as other:
        same = Talk(other)
        same.messages = talk.messages[:]
        assert same.decision("Two") == "imported"
        by_id = Talk(other).say("Three", extra_headers={"x-conversation-id": str(mine.pk)})
    assert by_id.headers["x-chatmemory-conversation"] == "new"
    assert mine.messages.count() == 2
    assert Chat.objects.filter(owner__username="bob").count() == 2


def test_a_history_begun_elsewhere_is_taken_over(ask: OpenAI, upstream: FakeUpstream) -> None:
    talk = Talk(ask)
    talk.messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "My name is Ada."},
        {"role": "assistant", "content": "Hello Ada."},
    ]
    assert talk.decision("What is my name?") == "imported"
    prompt = upstream.requests[-1].body
    assert "Be brief." in str(prompt)
    assert "My name is Ada." in str(prompt)
    chat = Chat.objects.get()
    assert chat.title == "My name is Ada."
    assert chat.last_seq == 4
    assert talk.decision("Thank you") == "continued"


def test_client_that_stopped_reading_continues_its_chat(ask: OpenAI, upstream: FakeUpstream) -> None:
    talk = Talk(ask)
    talk.say("A long question, of which only a part of the answer is read")
    talk.messages[-1]["content"] = talk.messages[-1]["content"][:12]
    assert talk.decision("Two") == "continued"


def test_store_false_stores_nothing(ask: OpenAI, upstream: FakeUpstream) -> None:
    raw = Talk(ask).say("Suggest a title", store=False)
    assert raw.headers["x-chatmemory-conversation"] == "not stored"
    Talk(ask).say("Suggest tags", extra_headers={"x-chatmemory-remember": "false"})
    chunks = ask.chat.completions.create(
        messages=[{"role": "user", "content": "A stream"}], model="arco", store=False, stream=True
    )
    assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == "You said: A stream"
    assert not Chat.objects.exists()
    assert not ChatCompletion.objects.exists()


@pytest.mark.parametrize("header", [("x-stainless-retry-count", "1"), ("Idempotency-Key", "k1")])
def test_a_repeated_request_is_the_same_turn(alice: Client, upstream: FakeUpstream, header: tuple[str, str]) -> None:
    body = {"model": "arco", "messages": [{"role": "user", "content": "Only once"}]}
    first, again = (alice.post("chat/completions", json=body, headers=dict([header])) for _ in "ab")
    assert first.json()["id"] == again.json()["id"]
    assert again.headers["x-chatmemory-conversation"] == "repeated"
    assert Message.objects.count() == 2


@pytest.mark.parametrize("retried", [True, False])
def test_a_request_whose_reply_failed_is_answered_in_its_place(
    alice: Client, ask: OpenAI, upstream: FakeUpstream, retried: bool
) -> None:
    talk = Talk(ask)
    talk.say("One")
    body = {"model": "arco", "messages": [*talk.messages, {"role": "user", "content": "Two"}]}
    upstream.script("stream", "status?code=500")
    assert alice.post("chat/completions", json=body).status_code == 502
    headers = {"x-stainless-retry-count": "1"} if retried else {}
    again = alice.post("chat/completions", json=body, headers=headers)
    assert again.status_code == 200
    assert again.headers["x-chatmemory-conversation"] == "regenerated"
    (chat,) = Chat.objects.all()
    said = list(chat.messages.order_by("seq").values_list("role", "status"))
    assert said[2:] == [("user", "complete"), ("assistant", "failed"), ("assistant", "complete")]


SCHEMA = {"name": "answer", "schema": {"type": "object"}, "strict": False}
AS_THEY_ARE = {"top_p": 0.9, "seed": 7, "stop": ["END"], "presence_penalty": 0.1, "max_tokens": 50}
AS_THEY_ARE |= {"temperature": 0.3, "response_format": {"type": "json_object"}}
PARAMETERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("chat", AS_THEY_ARE, AS_THEY_ARE),
    ("responses", {"temperature": 0.3}, {"temperature": 0.3}),
    ("responses", {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
    ("responses", {"max_completion_tokens": 50}, {"max_output_tokens": 50}),
    (
        "responses",
        {"response_format": {"type": "json_schema", "json_schema": SCHEMA}},
        {"text": {"format": {"type": "json_schema", **SCHEMA}}},
    ),
]


def test_parameters_reach_the_model_in_the_words_of_its_api(ask: OpenAI, upstream: FakeUpstream, settings: Any) -> None:
    for style, told, sent in PARAMETERS:
        settings.OPENAI_API_STYLE = style
        Talk(ask).say("Hello", **told)
        assert sent.items() <= upstream.requests[-1].body.items()


def test_errors_raise_the_sdks_exceptions(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        Talk(ask).say("Hello", model="gpt-9")
    assert missing.value.code == "model_not_found"
    assert "The model `gpt-9` does not exist here. Models: `arco`, " in missing.value.message
    with sdk(Client(alice.base, "wrong")) as stranger, pytest.raises(openai.AuthenticationError) as refused:
        Talk(stranger).say("Hello")
    assert refused.value.code == "invalid_api_key"
    assert not ChatCompletion.objects.exists()
    assert not upstream.requests


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that the SDK would have made before it tried again."""
    pauses: list[float] = []
    pause_of = OpenAI._calculate_retry_timeout

    def noted(*args: Any) -> float:
        pauses.append(pause_of(*args))
        return 0

    monkeypatch.setattr(OpenAI, "_calculate_retry_timeout", noted)
    return pauses


UPSTREAM = [
    ("status?code=429&retry_after=1", 429, "rate_limit_exceeded", 3),
    ("status?code=401", 502, "upstream_error", 1),
    ("status?code=400&error=invalid_value", 400, "invalid_value", 1),
    ("status?code=400&error=context_length_exceeded", 400, "context_length_exceeded", 1),
    ("status?code=404&error=model_not_found", 404, "model_not_found", 1),
    ("status?code=422&error=invalid_value", 400, "invalid_value", 1),
    ("status?code=429&error=insufficient_quota", 429, "insufficient_quota", 1),
    ("status?code=429&retry_after=500", 429, "rate_limit_exceeded", 1),
    ("status?code=500", 502, "upstream_error", 3),
    ("drop", 502, "upstream_error", 3),
    ("silent", 504, "upstream_timeout", 1),
]
SHAPES = [{"stream": stream, "store": store} for store in (True, False) for stream in (False, True)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("how", "status", "code", "calls"), first_row_of(UPSTREAM, 2))
def test_upstream_status_is_passed_on_and_sdk_retries_transient(
    alice: Client,
    upstream: FakeUpstream,
    settings: Any,
    waits: list[float],
    shape: dict[str, Any],
    how: str,
    status: int,
    code: str,
    calls: int,
) -> None:
    settings.REPLY_DEADLINES = Deadlines(first_byte=0.3 if how == "silent" else 30)
    upstream.behave(how, lane="stream")
    with sdk(alice, max_retries=2) as ask, pytest.raises(openai.APIStatusError) as raised:
        ask.chat.completions.create(model="arco", messages=[{"role": "user", "content": "Hello"}], **shape)
    assert (raised.value.status_code, raised.value.code) == (status, code)
    is_rejected = code in ("invalid_value", "model_not_found")
    assert ("The model provider rejected the request (" in raised.value.message) == is_rejected
    assert len(upstream.requests) == calls
    if "retry_after=1" in how:
        assert waits == [1, 1]


def test_unsupported_endpoints_say_what_there_is_instead(ask: OpenAI, alice: Client) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        ask.moderations.create(input="Hello")
    assert (raised.value.code, raised.value.type, raised.value.param) == ("not_found", "invalid_request_error", None)
    paths = {
        "chat/completions/chatcmpl-1": "the messages of a chat",
        "completions": "client.chat.completions",
        "conversations": "/v1/chats",
        "responses/input_tokens": "/context",
        "responses/compact": "nothing to compact",
        "threads/thread_1/messages": "/v1/chats",
        "files": "with their message",
        "vector_stores/vs_1": "with their message",
        "moderations": "to the model provider",
        "audio/speech": "to the model provider",
        "images/generations": "to the model provider",
        "fine_tuning/jobs": "to the model provider",
        "realtime": "stream: true",
    }
    for path, advice in paths.items():
        for answer in (alice.post(path, json={}), alice.get(path)):
            assert (answer.status_code, advice in answer.json()["error"]["message"]) == (404, True), answer.text
    for path in ("/chat/completions", "/v1/v1/chat/completions", "/api/v1/chat/completions", "/v1/chat/completions/"):
        answer = alice.post(path, json={})
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "invalid_request_error")
        assert answer.json()["error"]["message"].endswith("Did you mean `/v1/chat/completions`?")
    plain = alice.post("filesystem", json={}).json()["error"]
    assert plain["message"] == "No such endpoint, or an invalid id; see /v1/docs."


def test_a_busy_conversation_says_when_to_come_back(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conversations.replies.events.KEEP_ALIVE_SECONDS", 0.2)
    upstream.hold("stream")
    body = {
        "model": "arco",
        "messages": [{"role": "user", "content": "One"}],
        "conversation": "c1",
        "stream": True,
    }
    with alice.http.stream("POST", "/v1/chat/completions", json=body) as first:
        assert first.status_code == 200
        other = alice.post("chat/completions", json={**body, "messages": [{"role": "user", "content": "Two"}]})
        assert other.status_code == 409
        assert other.json()["error"]["code"] == "conversation_locked"
        assert other.headers["x-should-retry"] == "true"
        assert other.headers["retry-after-ms"] == "1000"
        upstream.release("stream")
        text = first.read()
    assert text.endswith(b"data: [DONE]\n\n")
    assert b'"usage"' not in text, "nobody asked for it"


def test_aliases_lead_to_variants(ask: OpenAI, upstream: FakeUpstream, settings: Any) -> None:
    settings.OPENAI_MODEL_ALIASES = {"gpt-4.1": "arco-pro", "*": "arco"}
    assert Talk(ask).say("Hello", model="gpt-4.1").parse().model == "gpt-4.1"
    assert upstream.requests[-1].body["model"] == settings.MODEL_VARIANTS["arco-pro"].model
    Talk(ask).say("Hello", model="whatever/it:is")
    assert upstream.requests[-1].body["model"] == settings.MODEL_VARIANTS["arco"].model
    for odd in ("x" * 129, "a\0b"):
        with pytest.raises(openai.NotFoundError):
            Talk(ask).say("Hello", model=odd)
    listed = {one.id for one in ask.models.list()}
    assert {"arco", "arco-pro", "gpt-4.1", settings.MODEL_VARIANTS["arco"].model} <= listed
    assert "*" not in listed
    assert ask.models.retrieve("gpt-4.1").id == "gpt-4.1"
    with pytest.raises(openai.NotFoundError):
        ask.models.retrieve("no/such")


def test_the_prompt_shrinks_where_the_client_sends_everything(ask: OpenAI, upstream: FakeUpstream) -> None:
    talk = Talk(ask)
    for number in range(40):
        text = f"Turn {number}: " + "some words that take room in a prompt, " * 20
        talk.messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}]
    talk.say("Do you follow?")
    run_fold(Chat.objects.get())
    raw = talk.say("And now?")
    said, sent = (int(raw.headers[f"x-chatmemory-{name}-tokens"]) for name in ("said", "sent"))
    assert said > 6_000
    assert sent <= 3_000


def test_a_body_may_be_larger_here_than_elsewhere(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.REQUEST_MAX_BYTES = 2_000
    settings.OPENAI_REQUEST_MAX_BYTES = 20_000
    history = [{"role": "user", "content": "word " * 1_000}]
    assert alice.post("chat/completions", json={"model": "arco", "messages": history}).status_code == 200
    too_large = [{"role": "user", "content": "word " * 10_000}]
    refused = alice.post("chat/completions", json={"model": "arco", "messages": too_large})
    assert refused.status_code == 413
    assert refused.json()["error"]["code"] == "request_too_large"


def test_staff_see_how_the_conversation_was_found(ask: OpenAI, upstream: FakeUpstream, admin_client: Any) -> None:
    talk = Talk(ask, temperature=0.3, user="somebody")
    talk.say("One")
    talk.say("Two")
    reply = ChatCompletion.objects.order_by("seq").last()
    assert reply is not None
    page = admin_client.get(f"/admin/memory/contextrecord/{reply.pk}/change/").content.decode()
    assert "continued, found by its history" in page
    assert "somebody" not in page


def test_an_imported_history_counts_as_tokens_of_the_day(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.RATE_LIMITS = True
    settings.LIMIT_TOKENS_PER_DAY = 20_000
    long = [{"role": "user", "content": "word " * 30_000}, {"role": "assistant", "content": "Yes."}]
    asked = {"model": "arco", "messages": [*long, {"role": "user", "content": "And?"}]}
    refused = alice.post("chat/completions", json=asked)
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "insufficient_quota"
    assert refused.headers["x-should-retry"] == "false"
    assert not Chat.objects.exists()

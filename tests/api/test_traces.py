"""The spans of a turn and of what happens to a chat's memory, each caused over HTTP."""

import json
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from opentelemetry.trace import SpanKind, StatusCode

from chatmemory.llm import tracing as spans_of_calls
from chatmemory.runtime import tracing
from conversations.models import Chat
from memory.models import SummaryRevision
from tests.api.talking import begin_reply, final, say
from tests.support.factories import add_turns
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import update
from tests.support.live_server import Client
from tests.support.spans import Spans, attributes, ids, parent, recorded
from tests.support.waiting import wait_for

CANARY = "canary-7f3a"
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    with recorded(monkeypatch) as found:
        yield found


def folded_chat(client: Client, turns: int = 12) -> Chat:
    """Return a chat of which the first turns are folded."""
    chat = Chat.objects.get(pk=client.post("chats", json={}).json()["id"])
    add_turns(chat, [(f"{CANARY} AB-{1000 + number}", f"Noted {CANARY}.") for number in range(turns)])
    assert update(chat).outcome == "done"
    return chat


def test_a_turn_is_one_trace_that_goes_on_at_the_upstream(alice: Client, upstream: FakeUpstream, spans: Spans) -> None:
    alice.http.headers["traceparent"] = f"00-{TRACE}-{CALLER}-01"
    alice.http.headers["baggage"] = "secret=1"
    say(alice, f"{CANARY} asks")
    request, begin = spans.one("POST /v1/message/first"), spans.one("begin_turn")
    chat, call = Chat.objects.get(), spans.one("chat gpt-5-mini")
    assert {ids(span)[0] for span in spans} == {TRACE}
    assert parent(request) == CALLER
    assert parent(begin) == parent(call) == ids(request)[1]
    assert (request.kind, call.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert attributes(request) == {
        "http.request.method": "POST",
        "http.route": "/v1/message/first",
        "url.path": "/v1/message/first",
        "url.scheme": "http",
        "http.response.status_code": 200,
    }
    of_chat = {"gen_ai.conversation.id": str(chat.pk), "session.id": str(chat.pk)}
    assert attributes(begin) == {**of_chat, "chatmemory.policy": chat.policy, "chatmemory.revision": 0}
    said = attributes(call)
    assert 0 < said.pop("gen_ai.response.time_to_first_chunk") < 60
    assert said.pop("gen_ai.usage.input_tokens") > 0
    assert said.pop("gen_ai.usage.output_tokens") > 0
    assert said.pop("gen_ai.usage.cache_read.input_tokens") >= 0
    assert said == {
        **of_chat,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.request.stream": True,
        "server.address": "127.0.0.1",
        "server.port": upstream._port,
        "gen_ai.response.model": "gpt-5-mini",
        "gen_ai.response.id": chat.messages.get(role="assistant").response_id,
        "gen_ai.response.finish_reasons": ["stop"],
        "user.id": tracing.user_hash(chat.owner_id),
    }
    (asked,) = upstream.requests
    assert asked.headers["traceparent"] == f"00-{TRACE}-{ids(call)[1]}-01"
    assert "baggage" not in asked.headers
    assert CANARY not in spans.text


def test_spans_have_texts_only_when_enabled(
    alice: Client, upstream: FakeUpstream, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans_of_calls, "CAPTURES", True)
    say(alice, CANARY, instructions="Be brief.")
    told = attributes(spans.one("chat gpt-5-mini"))
    text = [{"type": "text", "content": CANARY}]
    assert json.loads(told["gen_ai.input.messages"])[-1] == {"role": "user", "parts": text}
    assert "Be brief." in told["gen_ai.system_instructions"]
    (answer,) = json.loads(told["gen_ai.output.messages"])
    assert answer == {
        "role": "assistant",
        "parts": [{"type": "text", "content": f"You said: {CANARY}"}],
        "finish_reason": "stop",
    }


def test_spans_cover_fold_prompt_and_recall(alice: Client, upstream: FakeUpstream, spans: Spans) -> None:
    chat = folded_chat(alice)
    upsert, call = spans.one("upsert_memory"), spans.one("chat gpt-5-nano")
    assert parent(call) == ids(upsert)[1]
    assert upstream.requests[0].headers["traceparent"].split("-")[2] == ids(call)[1]
    revision = SummaryRevision.objects.get()
    of_chat = {"gen_ai.conversation.id": str(chat.pk), "session.id": str(chat.pk)}
    of_memory = {"gen_ai.provider.name": "chatmemory", "gen_ai.memory.store.id": str(chat.pk), **of_chat}
    assert attributes(upsert) == {
        **of_memory,
        "gen_ai.operation.name": "upsert_memory",
        "gen_ai.memory.record.id": str(revision.pk),
        "chatmemory.policy": chat.policy,
        "chatmemory.revision": 1,
        "user.id": tracing.user_hash(chat.owner_id),
    }
    said = attributes(call)
    assert said["gen_ai.request.stream"] is False
    assert said["gen_ai.response.finish_reasons"] == ["stop"]
    assert "gen_ai.response.time_to_first_chunk" not in said
    spans.clear()
    say(alice, "What did I say about AB-1003?", str(chat.pk))
    search, begin = spans.one("search_memory"), spans.one("begin_turn")
    assert attributes(begin)["chatmemory.revision"] == 1
    assert attributes(spans.one("chat gpt-5-mini"))["gen_ai.conversation.compacted"] is True
    assert parent(search) == ids(begin)[1]
    found = attributes(search)
    assert found.pop("gen_ai.memory.record.count") > 0
    assert found == {**of_memory, "gen_ai.operation.name": "search_memory"}
    assert CANARY not in spans.text


def test_memory_that_people_change(alice: Client, upstream: FakeUpstream, spans: Spans) -> None:
    chat = folded_chat(alice)
    path = f"chats/{chat.pk}"
    spans.clear()
    assert alice.post(f"{path}/brief/clear").status_code == 200
    assert alice.post(f"{path}/revisions/1/restore").status_code == 200
    message = chat.messages.first()
    assert message is not None
    assert alice.delete(f"{path}/messages/{message.pk}").status_code == 204
    assert alice.delete(path).status_code == 204
    operations = ["update_memory", "update_memory", "delete_memory", "delete_memory"]
    done = [span for span in spans if span.name in operations]
    assert [span.name for span in done] == operations
    assert {attributes(span)["gen_ai.memory.store.id"] for span in done} == {str(chat.pk)}
    assert all(parent(span) for span in done)


@pytest.mark.parametrize(
    ("behaviour", "error", "reason"),
    [("status?code=500", "upstream_error", "error"), ("incomplete?error=max_output_tokens", None, "length")],
)
def test_call_span_has_its_outcome(
    behaviour: str, error: str | None, reason: str, alice: Client, upstream: FakeUpstream, spans: Spans
) -> None:
    upstream.behave(behaviour)
    say(alice)
    call = spans.one("chat gpt-5-mini")
    assert attributes(call).get("error.type") == error
    assert attributes(call)["gen_ai.response.finish_reasons"] == [reason]
    assert call.status.status_code == (StatusCode.ERROR if error else StatusCode.UNSET)
    assert call.status.description is None


def test_a_call_that_is_cancelled_ends(alice: Client, upstream: FakeUpstream, spans: Spans) -> None:
    upstream.behave("normal?hold_after=1")
    upstream.hold()
    turn = begin_reply(alice)
    wait_for(lambda: upstream.active, "a call")
    assert alice.post(f"{turn.path}/cancel").status_code == 200
    call = spans.one("chat gpt-5-mini")
    assert attributes(call)["user.id"] == tracing.user_hash(User.objects.get(username="alice").pk)
    assert call.status.status_code == StatusCode.UNSET
    assert "gen_ai.response.finish_reasons" not in attributes(call)


def test_a_fold_that_fails_says_why(alice: Client, upstream: FakeUpstream, spans: Spans) -> None:
    chat = Chat.objects.get(pk=alice.post("chats", json={}).json()["id"])
    add_turns(chat, [(f"{CANARY} AB-{number}", "Noted.") for number in range(1000, 1012)])
    upstream.behave("status?code=400", lane="complete")
    update(chat)
    for name in ("upsert_memory", "chat gpt-5-nano"):
        assert attributes(spans.one(name))["error.type"] == "upstream_error"
    assert CANARY not in spans.text


def test_a_call_that_is_not_stored_has_a_user_and_no_conversation(
    ask: OpenAI, upstream: FakeUpstream, spans: Spans
) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": CANARY}]
    ask.chat.completions.create(model="arco", messages=messages, store=False)
    told = attributes(spans.one("chat gpt-5-mini"))
    assert told["user.id"] == tracing.user_hash(User.objects.get(username="alice").pk)
    assert "gen_ai.conversation.id" not in told


def test_client_disconnect_ends_request_span_not_call(alice: Client, upstream: FakeUpstream, spans: Spans) -> None:
    upstream.behave("normal?hold_after=1")
    upstream.hold()
    turn = begin_reply(alice)
    request = spans.one("POST /v1/message/first")
    assert not spans.named("chat gpt-5-mini")
    upstream.release()
    assert final(alice, turn)["status"] == "complete"
    call = spans.one("chat gpt-5-mini")
    assert parent(call) == ids(request)[1]
    assert attributes(call)["gen_ai.response.finish_reasons"] == ["stop"]
    say(alice, "Another")
    name = "POST /v1/message/first"
    wait_for(lambda: len({ids(span)[0] for span in spans.named(name)}) == 2, "a trace of its own")


def test_probes_have_no_spans_and_refusals_have(alice: Client, spans: Spans) -> None:
    alice.http.get(alice.base.replace("/v1", "") + "/healthz")
    assert alice.get("nowhere").status_code == 404
    assert attributes(spans.one("GET"))["http.response.status_code"] == 404


def test_spans_have_pseudonymous_users() -> None:
    assert tracing.user_hash(1) != tracing.user_hash(2)
    assert len(tracing.user_hash(1)) == 16

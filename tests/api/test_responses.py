"""Responses with OpenAI's own SDK in its strict mode: every field of every answer and event is checked."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from conversations.models import Chat, ChatCompletion, Message
from tests.api.talking import chunks, sdk
from tests.api.tool_talk import CALLED, OUTPUT, scripted
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

pytestmark = pytest.mark.postgres

LOOK: Any = {
    "type": "function",
    "name": "look_up_order",
    "description": "The state of an order.",
    "parameters": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    "strict": False,
}
CALL = ("call_a", "look_up_order", '{"order":"AB-1234"}')
QUESTION = {"role": "user", "content": "Where is my order AB-1234?"}
TALK = {"model": "arco", "input": "Talk"}


def create(ask: OpenAI, given: Any, **options: Any) -> Any:
    return ask.responses.create(model="arco", input=given, **options)


def decision(ask: OpenAI, given: Any, **options: Any) -> str:
    raw = ask.responses.with_raw_response.create(model="arco", input=given, **options)
    return str(raw.headers["x-chatmemory-conversation"])


def chat_of(response: Any) -> str:
    return str(ChatCompletion.objects.get(pk=UUID(response.id.removeprefix("resp_"))).chat_id)


def sent(upstream: FakeUpstream) -> str:
    """What the model was sent last."""
    return json.dumps(upstream.calls("stream")[-1].body)


def output(call_id: str = "call_a") -> dict[str, str]:
    return {"type": "function_call_output", "call_id": call_id, "output": OUTPUT}


@contextmanager
def beginning(client: Client) -> Iterator[tuple[str, Iterator[Any]]]:
    """Ask for a stream; yield the id of its response, and the events after the first."""
    with client.http.stream("POST", "/v1/responses", json={**TALK, "stream": True}) as told:
        events = (json.loads(line[6:]) for line in told.iter_lines() if line.startswith("data: {"))
        yield next(events)["response"]["id"], events


def items(client: Client, response: Any, **query: Any) -> Any:
    return client.get(f"responses/{response.id}/input_items", params=query).json()


# One response


def test_a_response_has_all_that_the_sdk_expects(ask: OpenAI, upstream: FakeUpstream) -> None:
    raw = ask.responses.with_raw_response.create(
        model="arco", input="Good morning", metadata={"a": "b"}, instructions="Be brief.", tools=[LOOK]
    )
    made = raw.parse()
    assert made.output_text == "You said: Good morning"
    assert (made.status, made.model, made.metadata) == ("completed", "arco", {"a": "b"})
    assert made.usage is not None
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens
    assert chat_of(made) == raw.headers["x-chatmemory-conversation-id"]
    assert made.conversation is None, "clients would go on by it"
    again = ask.responses.retrieve(made.id)
    assert again == made
    assert again.instructions == "Be brief."
    assert [tool.name for tool in again.tools] == ["look_up_order"]  # type: ignore[union-attr]  # a function


def test_a_stream_has_the_whole_sequence_of_events(ask: OpenAI, upstream: FakeUpstream) -> None:
    with ask.responses.stream(model="arco", input="Good morning") as told:
        events = list(told)
        final = told.get_final_response()
    names = [one.type.removeprefix("response.") for one in events]
    deltas = names.count("output_text.delta")
    assert names == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        *["output_text.delta"] * deltas,
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    numbers = [one.sequence_number for one in events]
    assert numbers == sorted(set(numbers))
    assert final.output_text == "You said: Good morning"
    assert ask.responses.retrieve(final.id).output_text == final.output_text


def test_a_stream_of_calls_has_all_of_their_events(ask: OpenAI, upstream: FakeUpstream) -> None:
    upstream.script("stream", scripted(CALL, ("call_b", "look_up_order", "{}"), text="Let me look."))
    with ask.responses.stream(model="arco", input=[QUESTION], tools=[LOOK]) as told:  # type: ignore[list-item]  # a plain dict
        names = [one.type.removeprefix("response.") for one in told]
        final = told.get_final_response()
    arguments = [f"function_call_arguments.{step}" for step in ("delta", "done")]
    of_call = ["output_item.added", *arguments, "output_item.done"]
    assert names[-9:] == [*of_call, *of_call, "completed"]
    assert [one.type for one in final.output] == ["message", "function_call", "function_call"]
    assert [one.arguments for one in final.output if one.type == "function_call"] == ['{"order":"AB-1234"}', "{}"]
    stored = ask.responses.retrieve(final.id)
    assert [one.to_dict()["id"] for one in stored.output] == [one.to_dict()["id"] for one in final.output]


class Order(BaseModel):
    order: str


def test_parse_reads_the_object_that_was_asked_for(ask: OpenAI, upstream: FakeUpstream) -> None:
    upstream.script("stream", 'normal?text=%7B"order"%3A"AB-1234"%7D')
    parsed = ask.responses.parse(model="arco", input="Which order?", text_format=Order)
    assert parsed.output_parsed == Order(order="AB-1234")
    assert upstream.calls("stream")[-1].body["text"]["format"]["name"] == "Order"


@pytest.mark.parametrize("after", [0, 3, 7, 1000])
def test_a_stream_resumes_after_any_event(ask: OpenAI, alice: Client, upstream: FakeUpstream, after: int) -> None:
    made = create(ask, "Good morning")
    events = chunks(alice.get(f"responses/{made.id}", params={"stream": "true", "starting_after": after}).text)
    assert all(one["sequence_number"] > after for one in events)
    text = "".join(one["delta"] for one in events if one["type"] == "response.output_text.delta")
    assert text == "You said: Good morning"[max(0, after - 3) :]
    assert (events[-1]["type"] == "response.completed") if after < 1000 else not events


# Which conversation


def test_previous_response_id_at_the_head_continues_the_chat(ask: OpenAI, upstream: FakeUpstream) -> None:
    first = create(ask, "My order is AB-1234.")
    second = create(ask, "Where is it?", previous_response_id=first.id)
    assert chat_of(second) == chat_of(first)
    assert second.previous_response_id == first.id
    assert "AB-1234" in sent(upstream)
    assert Chat.objects.count() == 1


def test_previous_response_id_of_an_older_response_branches(ask: OpenAI, upstream: FakeUpstream) -> None:
    first = create(ask, "My order is AB-1234.")
    create(ask, "It is late.", previous_response_id=first.id)
    assert decision(ask, "Cancel it.", previous_response_id=first.id) == "branched"
    assert "AB-1234" in sent(upstream)
    assert "It is late" not in sent(upstream)
    assert Message.objects.filter(content="It is late.", superseded_by=None).count() == 1


def test_previous_response_id_between_a_call_and_its_output_goes_on(ask: OpenAI, upstream: FakeUpstream) -> None:
    upstream.script("stream", scripted(CALL))
    called = create(ask, [QUESTION], tools=[LOOK])
    answered = create(ask, [output()], previous_response_id=called.id, tools=[LOOK])
    assert chat_of(answered) == chat_of(called)
    assert upstream.calls("stream")[-1].body["input"][-1] == output()
    again = create(ask, [output()], previous_response_id=called.id, tools=[LOOK])
    assert chat_of(again) != chat_of(called), "its turn goes on already, so this is another line of it"
    assert upstream.faults == []


def test_previous_response_id_after_a_failure_answers_the_question_anew(ask: OpenAI, upstream: FakeUpstream) -> None:
    first = create(ask, "My order is AB-1234.")
    upstream.script("stream", "status?code=400")
    with pytest.raises(openai.BadRequestError):
        create(ask, "Where is it?", previous_response_id=first.id)
    assert decision(ask, "Where is it?", previous_response_id=first.id) == "regenerated"
    assert Chat.objects.count() == 1


def test_previous_response_id_unknown_is_refused(ask: OpenAI, upstream: FakeUpstream) -> None:
    for unknown in ("resp_" + "0" * 32, "resp_x", "chatcmpl-1"):
        with pytest.raises(openai.BadRequestError) as told:
            create(ask, "Hello", previous_response_id=unknown)
        assert (told.value.code, told.value.param) == ("previous_response_not_found", "previous_response_id")


def test_a_history_in_items_finds_its_chat_in_either_api(ask: OpenAI, upstream: FakeUpstream) -> None:
    upstream.script("stream", scripted(CALL))
    first = create(ask, [QUESTION], tools=[LOOK])
    history = [QUESTION, *(one.model_dump(exclude_none=True) for one in first.output), output()]
    second = create(ask, history, tools=[LOOK])
    history += [one.model_dump(exclude_none=True) for one in second.output]
    third = create(ask, [*history, {"role": "user", "content": "Thank you"}], tools=[LOOK])
    assert chat_of(first) == chat_of(second) == chat_of(third)
    said: Any = [
        QUESTION,
        CALLED,
        {"role": "tool", "tool_call_id": "call_a", "content": OUTPUT},
        {"role": "assistant", "content": second.output_text},
        {"role": "user", "content": "Thank you"},
        {"role": "assistant", "content": third.output_text},
        {"role": "user", "content": "One more thing."},
    ]
    raw = ask.chat.completions.with_raw_response.create(model="arco", messages=said)
    assert raw.headers["x-chatmemory-conversation-id"] == chat_of(third)


def test_references_stand_for_the_items_that_were_answered(ask: OpenAI, upstream: FakeUpstream) -> None:
    upstream.script("stream", scripted(CALL, text="Let me look."))
    first = create(ask, [QUESTION], tools=[LOOK])
    references = [{"type": "item_reference", "id": one.id} for one in first.output]
    second = create(ask, [QUESTION, *references, output()], tools=[LOOK])
    assert chat_of(second) == chat_of(first)
    assert Message.objects.filter(role="tool").count() == 1


def test_a_reference_is_found_for_its_owner_and_end_user_alone(
    ask: OpenAI, user_client: Any, upstream: FakeUpstream
) -> None:
    made = create(ask, "My order is AB-1234.", safety_identifier="ann")
    assert (made.safety_identifier, ChatCompletion.objects.get().response) == (None, {})
    reference = [QUESTION, {"type": "item_reference", "id": made.output[0].id}, {"role": "user", "content": "And?"}]
    assert create(ask, reference, safety_identifier="ann").status == "completed"
    with sdk(user_client("bob")) as other:
        for one, options in ((ask, {"safety_identifier": "bob"}), (ask, {}), (other, {"safety_identifier": "ann"})):
            with pytest.raises(openai.BadRequestError) as told:
                create(one, reference, **options)
            assert (told.value.code, told.value.param) == ("invalid_value", "input.[1].id")


def test_a_conversation_is_named_by_its_chat(ask: OpenAI, upstream: FakeUpstream) -> None:
    first = create(ask, "My order is AB-1234.")
    named = chat_of(first)
    for conversation in (named, {"id": named}):
        made = create(ask, "Where is it?", conversation=conversation)
        assert chat_of(made) == named == made.conversation.id
    with pytest.raises(openai.BadRequestError) as told:
        create(ask, "Hello", conversation=named, previous_response_id=first.id)
    assert told.value.param == "previous_response_id"


def test_a_conversation_goes_on_in_our_own_api(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    first = create(ask, "My order is AB-1234.")
    alice.ask("It is late.", chat_of(first))
    third = create(ask, "Cancel it.", conversation=chat_of(first))
    assert chat_of(third) == chat_of(first)
    assert "It is late." in sent(upstream)


# Later


def test_input_items_are_those_that_the_request_brought(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", scripted(CALL))
    called = create(ask, [QUESTION], tools=[LOOK])
    answered = create(ask, [output()], previous_response_id=called.id, tools=[LOOK])
    (question,) = ask.responses.input_items.list(called.id)
    assert question.content[0].text == QUESTION["content"]  # type: ignore[union-attr,index]  # a message
    (result,) = ask.responses.input_items.list(answered.id)
    assert (result.type, result.call_id) == ("function_call_output", "call_a")  # type: ignore[union-attr]
    both = create(ask, [{"role": "user", "content": "Again?"}], previous_response_id=answered.id)
    page = items(alice, both, limit=1)
    assert (page["has_more"], page["first_id"]) == (False, page["data"][0]["id"])
    assert items(alice, both, after=page["last_id"])["data"] == []
    none = alice.get(f"responses/{both.id}/input_items", params={"limit": 0})
    assert (none.status_code, none.json()["error"]["param"]) == (400, "limit")


def test_a_deleted_response_is_gone_and_its_chat_is_not(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    made = create(ask, "My order is AB-1234.")
    ask.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        ask.responses.retrieve(made.id)
    with pytest.raises(openai.BadRequestError) as told:
        create(ask, "Hello", previous_response_id=made.id)
    assert told.value.code == "previous_response_not_found"
    assert alice.get(f"chats/{chat_of(made)}").status_code == 200


def test_a_response_is_found_by_its_owner_alone(ask: OpenAI, user_client: Any, upstream: FakeUpstream) -> None:
    made = create(ask, "My order is AB-1234.")
    bob = user_client("bob")
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
        assert bob.http.request(method, f"/v1/responses/{made.id}{path}").status_code == 404
    assert ask.responses.retrieve(made.id) == made


def test_cancel_keeps_what_was_said(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    upstream.behave("normal?deltas=20&hold_after=5")
    upstream.hold()
    with beginning(alice) as (response, data):
        assert ask.responses.retrieve(response).status == "in_progress"
        cancelled = ask.responses.cancel(response)
        *_, last = data
    assert cancelled.status == "cancelled"
    assert last["type"] == "response.incomplete"
    assert last["response"]["output"][0]["content"][0]["text"] == cancelled.output_text
    assert ask.responses.cancel(response) == cancelled == ask.responses.retrieve(response)
    upstream.release()
    upstream.behave()
    done = create(ask, "Hello")
    with pytest.raises(openai.ConflictError):
        ask.responses.cancel(done.id)


# The same promises


def test_store_false_keeps_nothing(ask: OpenAI, upstream: FakeUpstream) -> None:
    made = create(ask, "A secret", store=False)
    assert made.conversation is None
    assert not Chat.objects.exists()
    with pytest.raises(openai.NotFoundError):
        ask.responses.retrieve(made.id)
    kept = create(ask, "My order is AB-1234.")
    with pytest.raises(openai.BadRequestError) as told:
        create(ask, "Where is it?", previous_response_id=kept.id, store=False)
    assert told.value.param == "previous_response_id"


def test_a_retry_and_an_idempotency_key_get_the_same_response(alice: Client, upstream: FakeUpstream) -> None:
    body = {"model": "arco", "input": "Hello"}
    for header in (("Idempotency-Key", "k"), ("x-stainless-retry-count", "1")):
        first, again = (alice.post("responses", json=body, headers=dict([header])).json() for _ in "ab")
        assert first["id"] == again["id"]
        assert first["output"] == again["output"]


def test_an_idempotency_key_holds_for_a_response_in_place_of_one_that_failed(
    alice: Client, upstream: FakeUpstream
) -> None:
    upstream.script("stream", "failed?after=3")
    body = {"model": "arco", "input": "Hello"}
    assert alice.post("responses", json=body).status_code == 502
    first, again = (alice.post("responses", json=body, headers={"Idempotency-Key": "k"}) for _ in "ab")
    assert first.headers["x-chatmemory-conversation"] == "regenerated"
    assert first.json()["id"] == again.json()["id"]


def test_a_conversation_that_is_being_answered_is_locked(alice: Client, upstream: FakeUpstream) -> None:
    upstream.hold()
    body = {"model": "arco", "input": "Hello", "conversation": "orders"}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(alice.post, "responses", json=body)
        upstream.wait_until(lambda fake: fake.held())
        busy = alice.post("responses", json={**body, "input": "Again"})
        assert (busy.status_code, busy.json()["error"]["code"]) == (409, "conversation_locked")
        assert busy.headers["retry-after"]
        upstream.release()
        assert first.result().status_code == 200


def test_a_client_that_vanishes_finds_its_response_complete(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    upstream.behave("normal?deltas=20&hold_after=5")
    upstream.hold()
    with beginning(alice) as (response, _):
        pass
    upstream.release()
    assert "response.completed" in alice.get(f"responses/{response}", params={"stream": "true"}).text
    assert ask.responses.retrieve(response).status == "completed"


def test_a_stream_that_breaks_off_says_so_twice(alice: Client, upstream: FakeUpstream) -> None:
    upstream.behave("failed?after=3")
    told = alice.post("responses", json={**TALK, "stream": True}).text
    *_, error, failed = chunks(told)
    assert error["type"] == "error"
    assert error["message"] == error["error"]["message"]
    response = failed["response"]
    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
    assert response["output"][0]["content"][0]["text"]
    assert told.strip().endswith("data: [DONE]")


def test_a_client_that_read_what_a_crash_lost_learns_that_its_response_failed(
    ask: OpenAI, alice: Client, upstream: FakeUpstream
) -> None:
    upstream.behave("failed?after=3")
    with ask.responses.stream(model="arco", input="Talk") as told:
        made = next(iter(told)).response.id  # type: ignore[union-attr]  # the first event has it
    events = chunks(alice.get(f"responses/{made}?stream=true&starting_after=1000").text)
    assert events[-1]["type"] == "response.failed"
    assert events[0]["sequence_number"] > 1000


def test_a_failure_before_the_first_word_has_a_status_of_its_own(alice: Client, upstream: FakeUpstream) -> None:
    upstream.behave("status?code=500")
    for streams in (True, False):
        told = alice.post("responses", json={**TALK, "stream": streams})
        assert told.status_code == 502
        (stored,) = told.json()["error"]["details"]["response"]
        assert alice.get(f"responses/{stored}").json()["status"] == "failed"


def test_a_reply_at_its_limit_is_incomplete(ask: OpenAI, upstream: FakeUpstream) -> None:
    upstream.behave("incomplete?error=max_output_tokens")
    made = create(ask, "Talk", max_output_tokens=50)
    assert (made.status, made.max_output_tokens) == ("incomplete", 50)
    assert made.incomplete_details is not None
    assert made.incomplete_details.reason == "max_output_tokens"
    assert upstream.calls("stream")[-1].body["max_output_tokens"] == 50


# What a body may have


def test_tools_of_the_models_server_go_on_or_are_named(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    body = {
        "model": "arco",
        "input": "Hello",
        "tools": [LOOK, {"type": "web_search"}],
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "client_metadata": {"x": "y"},
        "truncation": "auto",
    }
    told = alice.post("responses", json=body)
    assert told.headers["x-chatmemory-ignored"] == "reasoning.summary"
    asked = upstream.calls("stream")[-1].body
    assert [tool["type"] for tool in asked["tools"]] == ["function", "web_search"]
    assert asked["reasoning"] == {"effort": "low"}
    assert (told.json()["reasoning"], told.json()["truncation"]) == ({"effort": "low", "summary": "auto"}, "auto")
    settings.OPENAI_API_STYLE = "chat"
    told = alice.post("responses", json={**body, "input": "Hello again"})
    assert told.headers["x-chatmemory-ignored"] == "web_search, reasoning.summary"
    assert [tool["type"] for tool in upstream.calls("stream")[-1].body["tools"]] == ["function"]


def test_call_of_a_grouped_tool_keeps_its_group(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    """As Codex has the tools of an MCP server."""
    group = {"type": "namespace", "name": "mcp__memory", "description": "x", "tools": [{**LOOK, "name": "search"}]}
    call = ("call_1", "search", "{}", {"namespace": "mcp__memory"})
    body = {"model": "arco", "input": "Where is it?", "tools": [group]}
    upstream.script("stream", *2 * [f"normal?tools={quote(json.dumps([call]))}"])
    streamed = alice.post("responses", json={**body, "input": "Look", "stream": True}).text
    assert streamed.count('"namespace":"mcp__memory"') == 3  # begun, done, and in the whole
    told = alice.post("responses", json=body)
    assert upstream.calls("stream")[-1].body["tools"] == [group]
    (item,) = told.json()["output"]
    assert (item["name"], item["namespace"]) == ("search", "mcp__memory")
    output = {"type": "function_call_output", "call_id": "call_1", "output": "In the reeds."}
    for further in (
        {"input": [output], "previous_response_id": told.json()["id"]},
        {"input": [{"role": "user", "content": "Where is it?"}, item, output]},
        {"input": [{"role": "user", "content": "An import"}, item | {"id": "fc_7"}, output]},
    ):
        assert alice.post("responses", json={**body, **further}).status_code == 200
        sent = [one for one in upstream.calls("stream")[-1].body["input"] if one.get("type") == "function_call"]
        assert [one["namespace"] for one in sent] == ["mcp__memory"], further
    settings.OPENAI_API_STYLE = "chat"
    assert alice.post("responses", json=body).headers["x-chatmemory-ignored"] == "namespace"


def test_thoughts_before_a_call_reach_the_model_again_until_its_turn_is_over(
    alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    call = ("call_1", "look_up_order", "{}", {"thoughts": "gAAAAA" + 40 * "x"})
    include = {"include": ["reasoning.encrypted_content"]}
    body = {"model": "arco", "tools": [LOOK], **include}
    question = {"role": "user", "content": "Where is it?"}
    upstream.script("stream", *2 * [f"normal?tools={quote(json.dumps([call]))}"])
    events = chunks(alice.post("responses", json={**body, "input": "Look", "stream": True}).text)
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    streamed = [event for event in events if "item" in event]
    assert [(one["type"][16:], one["item"]["type"], one["output_index"]) for one in streamed] == [
        ("item.added", "reasoning", 0),
        ("item.done", "reasoning", 0),
        ("item.added", "function_call", 1),
        ("item.done", "function_call", 1),
    ]
    told = alice.post("responses", json={**body, "input": [question]}).json()
    assert upstream.calls("stream")[-1].body["include"] == include["include"]
    thoughts, item = told["output"]
    assert (thoughts["type"], thoughts["encrypted_content"]) == ("reasoning", "gAAAAA" + 40 * "x")
    output = {"type": "function_call_output", "call_id": "call_1", "output": "In the reeds."}
    whole = [question, thoughts, item, output]
    another = {**body, "model": "arco-pro", "input": [output], "previous_response_id": told["id"]}
    assert alice.post("responses", json=another).status_code == 200
    assert [one.get("type") for one in upstream.calls("stream")[-1].body["input"]][1:] == [
        "function_call",
        "function_call_output",
    ], "no server reads the thoughts of another model"
    for further in (
        {"input": [output], "previous_response_id": told["id"]},
        {"input": whole},
        {"input": [question, *({"type": "item_reference", "id": one["id"]} for one in (thoughts, item)), output]},
        {"input": [{"role": "user", "content": "An import"}, thoughts, item | {"id": "fc_7"}, output]},
    ):
        answer = alice.post("responses", json={**body, **further})
        assert answer.status_code == 200
        sent = [one for one in upstream.calls("stream")[-1].body["input"] if one.get("type")]
        assert [one["type"] for one in sent] == ["reasoning", "function_call", "function_call_output"], further
        assert sent[0] == thoughts, further
    (said,) = answer.json()["output"]
    question = {"role": "user", "content": "An import"}
    later = [question, thoughts, item, output, said, {"role": "user", "content": "And?"}]
    assert alice.post("responses", json={**body, "input": later}).status_code == 200
    assert "reasoning" not in [one.get("type") for one in upstream.calls("stream")[-1].body["input"]]
    settings.OPENAI_API_STYLE = "chat"
    assert alice.post("responses", json={**body, "input": whole}).status_code == 200
    assert "include" not in upstream.calls("stream")[-1].body
    assert "gAAAAA" not in json.dumps(upstream.calls("stream")[-1].body)


def test_a_choice_of_tools_arrives_in_either_style(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    choice = {"type": "function", "name": "look_up_order"}
    body = {"model": "arco", "input": "Hello", "tools": [LOOK], "tool_choice": choice, "parallel_tool_calls": False}
    assert alice.post("responses", json=body).json()["tool_choice"] == choice
    assert upstream.calls("stream")[-1].body["tool_choice"] == choice
    settings.OPENAI_API_STYLE = "chat"
    assert alice.post("responses", json={**body, "input": "Hello again"}).status_code == 200
    nested = {"type": "function", "function": {"name": "look_up_order"}}
    assert upstream.calls("stream")[-1].body["tool_choice"] == nested


def test_images_and_files_come_with_a_message(alice: Client, upstream: FakeUpstream) -> None:
    text = "data:text/plain;base64,SGVsbG8="
    parts = [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
        {"type": "input_file", "filename": "a.txt", "file_data": text},
    ]
    told = alice.post("responses", json={"model": "arco", "input": [{"role": "user", "content": parts}]})
    assert told.status_code == 200, told.text
    content = upstream.calls("stream")[-1].body["input"][-1]["content"]
    assert [part["type"] for part in content] == ["input_text", "input_image", "input_file"]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"background": True}, "background", "unsupported_parameter"),
    ({"prompt": {"id": "p"}}, "prompt", "unsupported_parameter"),
    ({"context_management": [{"type": "compaction"}]}, "context_management", "unsupported_parameter"),
    ({"top_logprobs": 3}, "top_logprobs", "unsupported_parameter"),
    ({"include": ["message.output_text.logprobs"]}, "include", "unsupported_parameter"),
    ({"colour": "red"}, "colour", "unknown_parameter"),
    ({"input": None}, "input", "missing_required_parameter"),
    ({"input": []}, "input", "empty_array"),
    ({"input": " "}, "input.[0]", "invalid_value"),
    (
        {"input": [{"type": "function_call", "call_id": "a", "name": "b"}]},
        "input.[0].arguments",
        "missing_required_parameter",
    ),
    ({"input": [{"type": "mcp_call"}]}, "input.[0].type", "invalid_value"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
        "input.[0].content.[0].image_url",
        "missing_required_parameter",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        "input.[0].content.[0].file_id",
        "unsupported_parameter",
    ),
    ({"input": [QUESTION, output()]}, "input.[1]", ""),
    ({"input": [output()]}, "input.[0]", ""),
    ({"tools": [{"type": "function"}]}, "tools.[0].name", "missing_required_parameter"),
    ({"text": {"format": {"type": "json_schema"}}}, "text.format.name", "missing_required_parameter"),
    ({"max_output_tokens": 0}, "max_output_tokens", "integer_below_min_value"),
    ({"model": "nothing"}, "model", "model_not_found"),
]


@pytest.mark.parametrize(("fields", "param", "code"), REFUSED)
def test_unsupported_field_is_refused_by_name(
    alice: Client, upstream: FakeUpstream, fields: dict[str, Any], param: str, code: str
) -> None:
    told = alice.post("responses", json={"model": "arco", "input": "Hello", **fields})
    error = told.json()["error"]
    assert told.status_code in (400, 404)
    assert (error["type"], error["param"], error["code"] or "") == ("invalid_request_error", param, code)
    assert not upstream.requests


def test_limits_are_told_as_in_chat_completions(alice: Client, upstream: FakeUpstream) -> None:
    told: httpx.Response = alice.post("responses", json={"model": "arco", "input": "Hello"})
    for name in ("x-request-id", "openai-processing-ms", "openai-version", "x-ratelimit-remaining-requests"):
        assert told.headers[name], name

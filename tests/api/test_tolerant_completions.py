"""What clients of the OpenAI API send that is unusual, but means something: it is answered as they expect."""

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from conversations.models import Chat, Message
from tests.api.histories import assistant, send, user
from tests.support.completions import DOT
from tests.support.exhaustive import first_of
from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.shapes import Shape, call, called, chunk
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

CALL = {"id": "call_a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLED: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
OUTPUT = {"role": "tool", "tool_call_id": "call_a", "content": "sent on 4 May"}
LOOK = {"type": "function", "function": {"name": "look", "description": "See <|im_end|>"}}


@pytest.fixture(params=first_of(["chat", "responses"]))
def style(request: pytest.FixtureRequest, settings: Any) -> str:
    """Each API of an upstream."""
    settings.OPENAI_API_STYLE = request.param
    return str(request.param)


TRIMMED = {
    "an output": [OUTPUT, assistant("It was sent."), user("And when?")],
    "an output and a question": [OUTPUT, user("Thanks."), assistant("Welcome."), user("And when?")],
    "a call": [CALLED, OUTPUT, assistant("It was sent."), user("And when?")],
    "a call with text": [{**CALLED, "content": "I look."}, OUTPUT, user("And when?")],
}


@pytest.mark.parametrize("messages", first_of(TRIMMED.values()), ids=TRIMMED.keys())
def test_a_history_may_be_trimmed_in_the_middle_of_calls(
    alice: Client, upstream: FakeUpstream, style: str, messages: list[Any]
) -> None:
    for store in (True, False):
        send(alice, messages, tools=[LOOK], store=store)
        assert upstream.requests[-1].said[-1] == ("user", "And when?")
        assert "call_a" not in str(upstream.requests[-1].body)
    assert upstream.faults == []
    assert not Message.objects.filter(role__in=["tool", "tool_call"]).exists()


def test_a_system_message_alone_is_answered_and_not_stored(alice: Client, upstream: FakeUpstream, style: str) -> None:
    answer = send(alice, [{"role": "system", "content": "Say a title."}])
    assert answer.headers["x-chatmemory-conversation"] == "not stored"
    assert answer.json()["choices"][0]["message"]["content"] == "You said: Say a title."
    assert not Chat.objects.exists()


def test_a_last_message_of_the_assistant_is_continued_and_not_stored(alice: Client, upstream: FakeUpstream) -> None:
    answer = send(alice, [user("Count."), assistant("1, 2,")])
    assert answer.headers["x-chatmemory-conversation"] == "not stored"
    assert upstream.requests[-1].said[-1] == ("assistant", "1, 2,")
    assert not Chat.objects.exists()


def test_system_message_in_place_of_a_question_is_answered_where_it_stands(
    alice: Client, upstream: FakeUpstream, style: str
) -> None:
    """So gptme sends what its commands print."""
    state = [{"role": "system", "content": "Be brief."}, user("Which files?")]
    for printed in ("a.txt", "b.txt"):
        state += [assistant(f"I look at {printed}."), {"role": "system", "content": f"Ran: {printed}"}]
        answer = send(alice, state)
    assert upstream.requests[-1].said[-2:] == [("assistant", "I look at b.txt."), ("user", "Ran: b.txt")]
    assert upstream.requests[-1].instructions == "Be brief."
    state += [assistant(answer.json()["choices"][0]["message"]["content"]), user("Thanks.")]
    assert send(alice, state).headers["x-chatmemory-conversation"] == "continued"
    hurry = {"role": "system", "content": "Hurry."}
    for elsewhere in ([user("Count."), assistant("1"), hurry, user("On.")], [user("Count."), assistant(""), hurry]):
        send(alice, elsewhere)
        assert upstream.requests[-1].instructions == "Hurry."


def test_an_empty_place_for_the_answer_is_left_out(alice: Client, upstream: FakeUpstream) -> None:
    send(alice, [user("Count."), assistant("")])
    assert upstream.requests[-1].said[-1] == ("user", "Count.")
    assert Message.objects.count() == 2


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
def test_stop_sequences_end_the_answer_where_the_api_has_none(
    alice: Client, upstream: FakeUpstream, settings: Any, stream: bool, store: bool
) -> None:
    settings.OPENAI_API_STYLE = "responses"
    answer = send(alice, [user("one two </code> three")], stop=["Observation:", "</code>"], stream=stream, store=store)
    assert "one two" in answer.text
    assert "three" not in answer.text
    assert "code>" not in answer.text
    assert '"finish_reason":"stop"' in answer.text.replace(" ", "")
    assert "stop" not in upstream.requests[-1].body
    if store:
        assert Message.objects.get(role="assistant").content == "You said: one two "


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_stop_sequence_with_control_token_ends_the_answer_without_being_sent(
    alice: Client, upstream: FakeUpstream, settings: Any, stream: bool
) -> None:
    settings.OPENAI_API_STYLE = "chat"
    upstream.behave(Behaviour(text="one two <|im_end|> three"), lane="stream")
    answer = send(alice, [user("Count.")], stop="<|im_end|>", stream=stream)
    assert "stop" not in upstream.requests[-1].body
    assert '"finish_reason":"stop"' in answer.text.replace(" ", "")
    assert Message.objects.get(role="assistant").content == "one two "


@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
def test_control_tokens_are_broken_up_wherever_a_client_writes(
    alice: Client, upstream: FakeUpstream, settings: Any, store: bool
) -> None:
    settings.OPENAI_API_STYLE, settings.UPSTREAM_CONTROL_TOKENS = "chat", "disarm"
    token = "<|im_start|>"
    name = {"filename": f"{token}.txt", "file_data": "data:text/plain;base64,aGVsbG8="}
    call = {"id": f"{token}a", "type": "function", "function": {"name": token, "arguments": f'"{token}"'}}
    messages = [
        {"role": "system", "content": token},
        user(f"Look {token}"),
        {**CALLED, "content": token, "tool_calls": [call]},
        {**OUTPUT, "tool_call_id": f"{token}a", "content": token},
        assistant(token),
        {
            "role": "user",
            "content": [
                {"type": "text", "text": token},
                {"type": "file", "file": name},
                {"type": "image_url", "image_url": {"url": f"https://example.org/{token}.png"}},
            ],
        },
    ]
    send(alice, messages, tools=[LOOK], store=store, stop=[token, "END"])
    sent = str(upstream.requests[-1].body)
    assert token not in sent
    assert upstream.requests[-1].body["stop"] == ["END"]
    assert "<|im_end|>" not in sent
    assert sent.count("<|im_start|") >= 8


SIGNED = {"google": {"thought_signature": "EsUBCsIB+/=="}}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
def test_the_signature_of_a_thought_comes_back_with_its_call(
    alice: Client, upstream: FakeUpstream, settings: Any, store: bool, stream: bool
) -> None:
    settings.OPENAI_API_STYLE = "chat"
    calls = json.dumps([["call_a", "look", "{}", SIGNED]])
    upstream.script("stream", f"normal?tools={quote(calls, safe='')}")
    told = send(alice, [user("Where is it?")], tools=[LOOK], store=store, stream=stream)
    assert json.dumps(SIGNED, separators=(",", ":")) in told.text.replace(" ", "")
    made = {**CALLED, "tool_calls": [{**CALL, "extra_content": SIGNED}], "reasoning_content": "It says …"}
    send(alice, [user("Where is it?"), made, OUTPUT], tools=[LOOK], store=store)
    sent = next(one for one in upstream.requests[-1].body["messages"] if one.get("tool_calls"))
    assert sent["tool_calls"][0]["extra_content"] == SIGNED
    assert upstream.faults == []


@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
def test_an_id_that_contains_a_signature_comes_back_whole(
    alice: Client, upstream: FakeUpstream, style: str, store: bool
) -> None:
    long = "call_a__thought__" + "EsUBCsIB+/" * 600
    upstream.script("stream", f"normal?tools={quote(json.dumps([[long, 'look', '{}']]), safe='')}")
    made = send(alice, [user("Where is it?")], tools=[LOOK], store=store).json()["choices"][0]["message"]
    assert made["tool_calls"][0]["id"] == long
    output = {**OUTPUT, "tool_call_id": long}
    send(alice, [user("Where is it?"), {**CALLED, "tool_calls": made["tool_calls"]}, output], tools=[LOOK], store=store)
    assert json.dumps(upstream.requests[-1].body).count(f'"{long}"') == 2
    assert upstream.faults == []


@pytest.mark.parametrize("made_id", ["call_0fypS1hVXabcdef", "chatcmpl-tool-" + 32 * "a", "functions.look:0"])
def test_ids_of_calls_reach_another_model_as_every_server_takes_them(
    alice: Client, upstream: FakeUpstream, style: str, made_id: str
) -> None:
    upstream.script("stream", f"normal?tools={quote(json.dumps([[made_id, 'look', '{}']]), safe='')}")
    made = send(alice, [user("Where is it?")], tools=[LOOK]).json()["choices"][0]["message"]
    history = [user("Where is it?"), {**CALLED, "tool_calls": made["tool_calls"]}, {**OUTPUT, "tool_call_id": made_id}]
    for model in ("arco-pro", "arco"):
        send(alice, history, tools=[LOOK], model=model)
        body = upstream.requests[-1].body
        messages = [*body.get("messages", ()), *body.get("input", ())]
        told = [one.get("tool_call_id") or one.get("call_id") for one in messages]
        told += [call["id"] for one in messages for call in one.get("tool_calls", ())]
        first, second = filter(None, told)
        assert first == second
        assert first == made_id if model == "arco" else re.fullmatch("[a-z0-9]{9}", first)


def test_thoughts_before_a_call_go_back_while_the_turn_is_open_and_later_as_a_blank(
    alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    """DeepSeek's and Kimi's servers refuse a call without `reasoning_content`."""
    settings.OPENAI_API_STYLE = "chat"
    thoughts = chunk({"reasoning_content": "I look "}) + chunk({"reasoning_content": "it up."})
    calls = called([call("look", "{}", index=0, id="call_a")])
    upstream.script("stream", Shape("", thoughts + calls).behaviour)
    send(alice, [user("Where is it?")], tools=[LOOK])
    history = [user("Where is it?"), CALLED, OUTPUT]
    reply = send(alice, history, tools=[LOOK]).json()["choices"][0]["message"]["content"]
    send(alice, [*history, assistant(reply), user("And?")], tools=[LOOK])
    send(alice, [*history, assistant(reply), user("And?")], tools=[LOOK], model="arco-pro")
    asked = [one.body["messages"] for one in upstream.requests]
    sent = [one["reasoning_content"] for body in asked for one in body if "reasoning_content" in one]
    assert sent == ["I look it up.", " "], "to the model alone whose thoughts they are"


def test_an_odd_signature_is_left_out(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.OPENAI_API_STYLE = "chat"
    odd_ones: tuple[Any, ...] = ("x", [], {"a": "x" * 70_000})
    for odd in odd_ones:
        made = {**CALLED, "tool_calls": [{**CALL, "extra_content": odd}]}
        send(alice, [user("Where is it?"), made, OUTPUT], tools=[LOOK], store=False)
        assert "extra_content" not in str(upstream.requests[-1].body)


def test_names_of_speakers_are_passed_on_where_the_api_has_them(
    alice: Client, upstream: FakeUpstream, style: str
) -> None:
    messages = [
        {**user("Count."), "name": "planner"},
        {**assistant("1"), "name": "two words"},
        {**user("On."), "name": "critic"},
    ]
    send(alice, messages, store=False)
    names = [one.get("name") for one in upstream.requests[-1].body.get("messages", ())]
    assert names == (["planner", None, "critic"] if style == "chat" else [])
    send(alice, messages)
    nameless = [{name: one[name] for name in ("role", "content")} for one in messages]
    answer = send(alice, [*nameless, assistant("You said: On."), user("And?")])
    assert answer.headers["x-chatmemory-conversation"] == "continued"
    assert Chat.objects.count() == 1


SENT_BACK: dict[str, list[Any]] = {
    "cache_control": [{**user("And?"), "cache_control": {"type": "ephemeral"}}],
    "id and timestamp": [{**user("And?"), "id": "msg_1", "timestamp": 1764000000.5, "createdAt": "2026-11-01"}],
    "reasoning_details": [{**assistant("y"), "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}],
    "parsed": [{**assistant('{"a": 1}'), "parsed": {"a": 1}, "audio": None, "function_call": None}],
    "a part with thoughts": [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "y", "annotations": []},
            ],
        },
    ],
    "an image of the assistant": [{"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": DOT}}]}],
    "a blank answer": [assistant("\n \n")],
    "no answer": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}],
}


@pytest.mark.parametrize("store", first_of([True, False]), ids=["stored", "not stored"])
@pytest.mark.parametrize("messages", SENT_BACK.values(), ids=SENT_BACK.keys())
def test_fields_that_clients_send_back_are_left_out(
    alice: Client, upstream: FakeUpstream, style: str, messages: list[Any], store: bool
) -> None:
    send(alice, [user("x"), *messages, user("Hello")], store=store)
    sent = upstream.requests[-1]
    assert sent.said[-1][1].endswith("Hello")
    assert "hm" not in str(sent.body)
    assert "base64" not in str(sent.body)
    assert all(content.strip() for _, content in sent.said)
    assert upstream.faults == []
    assert not Message.objects.filter(content__regex=r"^\s*$").exists()


@pytest.mark.parametrize("content", [None, "", [{"type": "image_url", "image_url": {"url": DOT}}]], ids=str)
def test_an_output_without_text_is_taken(alice: Client, upstream: FakeUpstream, style: str, content: Any) -> None:
    for store in (True, False):
        send(alice, [user("Where?"), CALLED, {**OUTPUT, "content": content}], tools=[LOOK], store=store)
        assert ("[image: " in str(upstream.requests[-1].body)) is bool(content)
        assert "base64" not in str(upstream.requests[-1].body)
        assert upstream.faults == []


@pytest.mark.parametrize("stop", ["", [], [""]], ids=str)
def test_blank_stop_sequence_is_ignored(alice: Client, upstream: FakeUpstream, settings: Any, stop: Any) -> None:
    settings.OPENAI_API_STYLE = "chat"
    send(alice, [user("Hello")], stop=stop, prompt_cache_retention="24h")
    assert {"stop", "prompt_cache_retention"}.isdisjoint(upstream.requests[-1].body)


EXTRA: dict[str, Any] = {
    "top_k": 20,
    "min_p": 0.05,
    "chat_template_kwargs": {"enable_thinking": False},
    "think": False,
    "repetition_penalty": 1.1,
}


def takes(settings: Any, extra: Any) -> None:
    settings.MODEL_VARIANTS = {name: replace(one, extra=extra) for name, one in settings.MODEL_VARIANTS.items()}


@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("extra", [True, tuple(EXTRA)], ids=["any", "named"])
def test_parameters_that_a_variant_takes_go_to_its_model(
    alice: Client, upstream: FakeUpstream, settings: Any, extra: Any, store: bool, style: str
) -> None:
    takes(settings, extra)
    send(alice, [user("Hello")], **EXTRA, store=store)
    sent = upstream.requests[-1].body
    assert {name: sent.get(name) for name in EXTRA} == EXTRA


@pytest.mark.parametrize("extra", [False, ("min_p",)], ids=["none", "another"])
def test_a_parameter_that_no_model_takes_is_refused_with_the_setting(
    alice: Client, upstream: FakeUpstream, settings: Any, extra: Any
) -> None:
    takes(settings, extra)
    body = {"model": "arco", "messages": [user("Hello")], "top_k": 20}
    answer = alice.post("chat/completions", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, "top_k", "unknown_parameter")
    assert "MODEL_VARIANTS" in error["message"]
    assert '"extra"' in error["message"]


def test_a_fallback_that_does_not_take_a_parameter_is_not_asked(
    alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    spare = settings.MODEL_VARIANTS["arco-pro"]
    arco = replace(settings.MODEL_VARIANTS["arco"], extra=True, fallback=spare)
    settings.MODEL_VARIANTS = {"arco": arco, "arco-pro": spare}
    upstream.behave("status?code=500", lane="stream")
    body = {"model": "arco", "messages": [user("Hello")]}
    for fields, asked in ((EXTRA, [arco.model]), ({}, [arco.model, spare.model])):
        before = len(upstream.requests)
        assert alice.post("chat/completions", json={**body, **fields}).status_code == 502
        assert [one.model for one in upstream.requests[before:]] == asked


def test_options_of_prompt_are_no_request_parameters(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.OPENAI_API_STYLE = "responses"
    takes(settings, True)
    send(alice, [user("Hello")], input="Ignore it.", max_output_tokens=9, max_tokens=5)
    sent = upstream.requests[-1].body
    assert (sent["input"][-1]["content"], sent["max_output_tokens"]) == ("Hello", 5)

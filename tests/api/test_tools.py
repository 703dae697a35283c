"""Turns in which the model calls the client's tools, with OpenAI's own SDK."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from openai import OpenAI

from conversations.models import Chat, ChatCompletion, Message
from memory.briefs import unfolded
from memory.history.rows import pending_seq
from memory.models import ConversationBrief
from tests.api.talking import chunks
from tests.api.tool_talk import (
    ANSWERED,
    CALL,
    CALLED,
    FIRST,
    LOOK,
    OUTPUT,
    QUESTION,
    ToolTalk,
    looked_up,
    roles,
    scripted,
    waiting,
)
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

pytestmark = pytest.mark.postgres


def test_a_turn_goes_on_until_the_model_calls_nothing(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    talk = looked_up(ask, upstream)
    chat = Chat.objects.get()
    assert roles(chat) == ["user", "assistant", "tool_call", "tool", "assistant"]
    assert (chat.last_seq, chat.open_seq) == (5, 0)
    assert unfolded(ConversationBrief.objects.get()).turns == 1
    assert talk.turn("Thank you") == "You said: Thank you"
    assert talk.decisions == ["new", "continued", "continued"]
    first, second, third = (request.body for request in upstream.calls("stream"))
    assert first["tools"][0]["name"] == "look_up_order"
    function: Any = CALL["function"]
    call = {"type": "function_call", "call_id": "call_a", **function}
    output = {"type": "function_call_output", "call_id": "call_a", "output": OUTPUT}
    assert second["input"] == [QUESTION, call, output]
    assert third["input"][:3] == [QUESTION, call, output]
    for reply in Message.objects.filter(role="assistant"):
        told = alice.get(f"chats/{reply.chat_id}/messages/{reply.pk}/context").json()
        assert told["exact"] is True, told
    sections = {one["kind"]: one["tokens"] for one in told["sections"]}
    assert sections["tools"] > 20
    assert upstream.faults == []


def test_calls_are_streamed_as_the_sdk_joins_them(ask: OpenAI, upstream: FakeUpstream) -> None:
    upstream.script(
        "stream",
        scripted(
            ("call_a", "look_up_order", '{"order":"AB-1234"}'),
            ("call_b", "look_up_order", '{"order":"CD-5678"}'),
            text="Let me look.",
        ),
    )
    with ask.chat.completions.stream(model="arco", messages=[QUESTION], tools=[LOOK]) as stream:
        made = stream.get_final_completion().choices[0]
    assert made.finish_reason == "tool_calls"
    assert made.message.content == "Let me look."
    assert [(one.id, one.function.arguments) for one in made.message.tool_calls or ()] == [
        ("call_a", '{"order":"AB-1234"}'),
        ("call_b", '{"order":"CD-5678"}'),
    ]
    assert roles(Chat.objects.get()) == ["user", "assistant", "tool_call", "tool_call"]


def test_between_a_call_and_its_output_the_chat_is_free_and_the_turn_open(
    ask: OpenAI, alice: Client, upstream: FakeUpstream
) -> None:
    waiting(ask, upstream)
    chat = Chat.objects.get()
    assert pending_seq(chat.key) == 1
    assert unfolded(ConversationBrief.objects.get()).turns == 0
    alice.ask("Never mind", str(chat.pk))
    chat.refresh_from_db()
    assert roles(chat) == ["user", "assistant", "tool_call", "tool", "user", "assistant"]
    assert "No output" in chat.messages.get(seq=4).content
    assert chat.open_seq == 0
    assert unfolded(ConversationBrief.objects.get()).turns == 2
    assert upstream.faults == []


def test_a_failed_reply_to_an_output_is_asked_for_again_in_its_place(ask: OpenAI, upstream: FakeUpstream) -> None:
    talk = waiting(ask, upstream)
    talk.messages += [CALLED, ANSWERED]
    upstream.script("stream", "status?code=500")
    with pytest.raises(Exception, match="502"):
        talk.create()
    assert Chat.objects.get().open_seq == 1
    assert talk.create().choices[0].message.content == f"You said: {OUTPUT}"
    chat = Chat.objects.get()
    assert talk.decisions == ["new", "regenerated"]
    assert chat.open_seq == 0
    assert unfolded(ConversationBrief.objects.get()).turns == 1
    assert upstream.calls("stream")[-1].body == upstream.calls("stream")[-2].body


def test_a_turn_that_was_answered_stays_over_when_a_new_answer_fails(ask: OpenAI, upstream: FakeUpstream) -> None:
    talk = looked_up(ask, upstream, metadata={"conversation_id": "orders"})
    del talk.messages[-1]
    upstream.script("stream", "status?code=500")
    with pytest.raises(Exception, match="502"):
        talk.create()
    assert ChatCompletion.objects.order_by("-message_id")[0].decision == "regenerated"
    assert Chat.objects.get().open_seq == 0
    assert unfolded(ConversationBrief.objects.get()).turns == 1
    assert talk.turn("Thank you") == "You said: Thank you"
    assert upstream.faults == []


def test_another_output_is_a_branch_with_the_same_call(ask: OpenAI, upstream: FakeUpstream) -> None:
    talk = looked_up(ask, upstream)
    talk.messages = [
        {"role": "user", "content": "Where is my order?"},
        CALLED,
        {**ANSWERED, "content": "Not found"},
    ]
    assert talk.create().choices[0].message.content == "You said: Not found"
    assert talk.decisions[-1] == "branched"
    first, branch = Chat.objects.order_by("pk")
    assert roles(first) == roles(branch)
    assert branch.messages.get(seq=4).content == "Not found"
    assert branch.open_seq == 0


def test_calls_may_come_back_written_another_way_and_with_ids_made_anew(ask: OpenAI, upstream: FakeUpstream) -> None:
    function = {"name": "look_up_order", "arguments": '{ "order": "AB-1234" }'}
    talk = looked_up(ask, upstream)
    talk.messages[1] = {**CALLED, "tool_calls": [{**CALL, "function": function}]}
    talk.turn("Thank you")
    assert talk.decisions[-1] == "continued"
    upstream.script("stream", FIRST)
    talk.messages.append({"role": "user", "content": "And my other order?"})
    talk.create()
    talk.messages += [
        {**CALLED, "tool_calls": [{**CALL, "id": "made-anew"}]},
        {**ANSWERED, "tool_call_id": "made-anew"},
    ]
    talk.create()
    assert talk.decisions[-1] == "continued"
    assert Chat.objects.count() == 1


def test_a_client_that_trims_is_found_by_its_newest_outputs(ask: OpenAI, upstream: FakeUpstream) -> None:
    talk = ToolTalk(ask)
    talk.turn("Hello")
    upstream.script("stream", FIRST)
    talk.turn("Where is my order?")
    talk.messages = talk.messages[2:]
    talk.turn("Thank you")
    assert talk.decisions[-1] == "continued"
    assert Chat.objects.count() == 1


def test_a_history_with_tools_is_taken_over(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    talk = ToolTalk(ask)
    talk.messages = [QUESTION, CALLED, ANSWERED]
    assert talk.create().choices[0].message.content == f"You said: {OUTPUT}"
    chat = Chat.objects.get()
    assert talk.decisions == ["imported"]
    assert roles(chat) == ["user", "assistant", "tool_call", "tool", "assistant"]
    told = alice.get(f"chats/{chat.pk}/messages/{chat.messages.get(seq=5).pk}/context").json()
    assert told["exact"] is True
    assert [one["kind"] for one in told["sections"]] == ["tools", "question", "open_turn"]


def test_calls_of_another_server_in_place_of_our_answer_are_imported(ask: OpenAI, upstream: FakeUpstream) -> None:
    talk = ToolTalk(ask)
    talk.turn("Hello")
    talk.turn("Where is my order?")
    talk.messages[-1:] = [CALLED, ANSWERED]
    assert talk.create().choices[0].message.content == f"You said: {OUTPUT}"
    assert talk.decisions[-1] == "imported"
    first, imported = Chat.objects.order_by("pk")
    assert roles(first) == ["user", "assistant"] * 2
    assert roles(imported) == ["user", "assistant", "user", "assistant", "tool_call", "tool", "assistant"]
    assert upstream.faults == []


def test_a_named_conversation_may_be_sent_the_outputs_alone(alice: Client, upstream: FakeUpstream) -> None:
    named = {"model": "arco", "tools": [LOOK], "conversation": "c1"}
    upstream.script("stream", FIRST)
    alice.post("chat/completions", json={**named, "messages": [QUESTION]})
    again = alice.post("chat/completions", json={**named, "messages": [ANSWERED]})
    assert again.json()["choices"][0]["message"]["content"] == f"You said: {OUTPUT}"
    late = alice.post("chat/completions", json={**named, "messages": [ANSWERED]})
    assert (late.status_code, late.json()["error"]["param"]) == (400, "messages")
    assert roles(Chat.objects.get()) == ["user", "assistant", "tool_call", "tool", "assistant"]
    assert upstream.faults == []


def test_a_turn_with_tools_is_regenerated_from_its_question(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    looked_up(ask, upstream)
    chat = Chat.objects.get()
    last = chat.messages.get(seq=5)
    made = alice.post(f"chats/{chat.pk}/messages/{last.pk}/regenerate", json={"stream": False})
    assert made.json()["message"]["content"] == "You said: Where is my order?"
    standing = chat.messages.filter(superseded_by=None).order_by("seq")
    assert list(standing.values_list("seq", flat=True)) == [1, 6]
    assert unfolded(ConversationBrief.objects.get()).turns == 1
    alice.ask("Thanks", str(chat.pk))
    assert upstream.faults == []


RUN: Any = {
    "type": "custom",
    "custom": {
        "name": "run",
        "description": "Runs a query.",
        "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "SELECT .*"}},
    },
}
QUERY = "SELECT state FROM orders\nWHERE id = 'AB-1234'"


@pytest.mark.parametrize("style", first_of(["responses", "chat"]))
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_custom_tools_are_called_with_any_text(
    alice: Client, upstream: FakeUpstream, settings: Any, style: str, stream: bool
) -> None:
    settings.OPENAI_API_STYLE = style
    called = {"id": "call_q", "type": "custom", "custom": {"name": "run", "input": QUERY}}
    body: dict[str, Any] = {"model": "arco", "messages": [QUESTION], "tools": [RUN, LOOK], "stream": stream}
    body["tool_choice"] = {"type": "custom", "custom": {"name": "run"}}
    upstream.script("stream", f"normal?tools={quote(json.dumps([['call_q', 'run', QUERY, 'custom']]), safe='')}")
    answer = alice.post("chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    if stream:
        [made] = [call for one in chunks(answer.text) for call in one["choices"][0]["delta"].get("tool_calls", ())]
        assert made == {"index": 0, **called}
    else:
        assert answer.json()["choices"][0]["message"]["tool_calls"] == [called]
    asked = upstream.requests[-1].body
    flat = {"type": "grammar", "syntax": "regex", "definition": "SELECT .*"}
    told = {"type": "custom", "name": "run", "description": "Runs a query.", "format": flat}
    assert asked["tools"][0] == (told if style == "responses" else RUN)
    chosen = {"type": "custom", "name": "run"} if style == "responses" else body["tool_choice"]
    assert asked["tool_choice"] == chosen
    body["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call_q", "content": "sent on 4 May"},
    ]
    body |= {"stream": False, "tool_choice": "auto"}
    body["messages"] += [alice.post("chat/completions", json=body).json()["choices"][0]["message"]]
    if style == "responses":
        kinds = [item.get("type") for item in upstream.requests[-1].body["input"]]
        assert kinds[-2:] == ["custom_tool_call", "custom_tool_call_output"]
    else:
        assert upstream.requests[-1].body["messages"][-2]["tool_calls"] == [called]
    body["messages"].append({"role": "user", "content": "Thank you"})
    assert alice.post("chat/completions", json=body).status_code == 200
    assert Chat.objects.count() == 1
    assert roles(Chat.objects.get()) == ["user", "assistant", "tool_call", "tool", "assistant", "user", "assistant"]
    assert Message.objects.get(role="tool_call").content == f"Called run({QUERY})"
    assert upstream.faults == []


def test_unstored_request_with_tools_stores_nothing(ask: OpenAI, upstream: FakeUpstream) -> None:
    upstream.script("stream", FIRST)
    made = ask.chat.completions.create(
        model="arco", messages=[QUESTION], tools=[LOOK], tool_choice="required", store=False
    )
    assert made.choices[0].finish_reason == "tool_calls"
    assert upstream.requests[-1].body["tool_choice"] == "required"
    messages: Any = [QUESTION, CALLED, ANSWERED]
    again = ask.chat.completions.create(model="arco", messages=messages, tools=[LOOK], store=False)
    assert again.choices[0].message.content == f"You said: {OUTPUT}"
    assert not Chat.objects.exists()


def test_forget_ends_open_tool_turn(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    talk = waiting(ask, upstream)
    chat = Chat.objects.get()
    call = chat.messages.get(role="tool_call")
    assert alice.delete(f"chats/{chat.pk}/messages/{call.pk}").status_code == 204
    chat.refresh_from_db()
    call.refresh_from_db()
    assert (chat.open_seq, call.payload, call.content) == (0, None, "")
    talk.messages = [QUESTION, {"role": "assistant", "content": ""}, {"role": "user", "content": "And now?"}]
    talk.create()
    assert upstream.faults == []


@pytest.mark.exhaustive
def test_recall_finds_tool_output(ask: OpenAI, upstream: FakeUpstream) -> None:
    talk = looked_up(ask, upstream)
    for number in range(15):
        talk.turn(f"Tell me about item {number}, " + "and about everything else that I could buy there, " * 20)
    talk.turn("What does Quicksilver Freight say it weighs?")
    sent = upstream.calls("stream")[-1]
    assert "17.25" in sent.text

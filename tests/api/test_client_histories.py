"""What real clients make of a conversation, word for word in shape, and what becomes of it: one chat, and no other."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from django.utils import timezone

from conversations.models import ActiveReply, Chat, Message
from tests.api.histories import DECISION, NAME, answer_text, assistant, questions, send, user
from tests.api.tool_talk import ANSWERED, CALLED, LOOK, scripted
from tests.support.exhaustive import first_of, first_row_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.waiting import wait_for

TOOL = {"type": "function", "function": {"name": "search_web", "parameters": {"type": "object"}}}
FACT, ASKED = "My locker number is 4711", "What is my locker number?"


def topics(count: int) -> list[str]:
    return [FACT, *(f"Tell me about topic {number}" for number in range(count - 2)), ASKED]


# Clients that summarize by themselves

Messages = list[dict[str, Any]]


def summarized(kept: int) -> Any:
    """LangChain's SummarizationMiddleware: its state is a summary and the last messages, once there are too many."""

    def shorten(state: Messages) -> Messages:
        if len(state) < kept + 4:
            return state
        summary = f"Here is a summary of the conversation to date:\n\n{len(state)} messages on topics."
        return [user(summary), *state[len(state) - kept :]]

    return shorten


def head_and_tail(state: Messages) -> Messages:
    """A buffer that keeps how it began, and the end."""
    return state if len(state) < 13 else [*state[:4], *state[-7:]]


@pytest.mark.parametrize(
    "shorten",
    first_of([summarized(20), summarized(7), head_and_tail]),
    ids=["twenty kept", "seven kept", "a gap"],
)
def test_summarized_history_continues_its_chat(alice: Client, upstream: FakeUpstream, shorten: Any) -> None:
    state: Messages = []
    for text in topics(16):
        state = shorten([*state, user(text)])
        answer = send(alice, state)
        state = [*state, assistant(answer_text(answer))]
    assert questions(answer.headers[NAME]) == topics(16)
    assert "4711" in upstream.requests[-1].text
    assert Chat.objects.count() == 1


def test_cleared_tool_outputs_continue_their_chat(alice: Client, upstream: FakeUpstream) -> None:
    """LangChain's ClearToolUsesEdit replaces all but the last outputs."""
    state: Messages = []
    for text in topics(8):
        upstream.script("stream", "normal?tools=" + f'[["call_{len(state)}","search_web","{{}}"]]')
        called = send(alice, [*state, user(text)], tools=[TOOL]).json()["choices"][0]["message"]
        state += [
            user(text),
            called,
            {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": text},
        ]
        outputs = [one for one in state if one["role"] == "tool"]
        for one in outputs[:-3]:
            one["content"] = "[cleared]"
        answer = send(alice, state, tools=[TOOL])
        state.append(assistant(answer_text(answer)))
    assert Chat.objects.count() == 1
    assert questions(answer.headers[NAME]) == topics(8)


def test_calls_that_a_client_tells_as_text_stay_in_their_chat(alice: Client, upstream: FakeUpstream) -> None:
    """smolagents: its calls are the assistant's words, in Python's notation, and outputs are the user's."""
    state: Messages = [user(FACT)]
    for number in range(3):
        arguments = json.dumps({"text": f"it's “{number}”\nor more", "many": [1, True, None]}, ensure_ascii=number == 0)
        scripted = json.dumps([[f"call_{number}", "search_web", arguments]])
        upstream.script("stream", f"normal?tools={quote(scripted)}")
        (call,) = send(alice, state, tools=[TOOL]).json()["choices"][0]["message"]["tool_calls"]
        told = [{"id": call["id"], "function": {"name": "search_web", "arguments": json.loads(arguments)}}]
        state += [assistant(f"Calling tools:\n{told}"), user(f"Observation:\n{number}")]
        answer = send(alice, state, tools=[TOOL])
        assert answer.headers[DECISION] == "continued"
        state += [assistant(answer_text(answer)), user(f"New task: {number}")]
    assert Chat.objects.count() == 1
    assert upstream.faults == []


def test_other_calls_told_as_text_are_another_chat(alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", f"normal?tools={quote(json.dumps([['call_1', 'search_web', json.dumps({'q': 4711})]]))}")
    send(alice, [user("Look it up.")], tools=[TOOL])
    told = assistant("Calling tools: search_web {'q': 4712}")
    assert send(alice, [user("Look it up."), told, user("Result: …")]).headers[DECISION] == "imported"


# Side requests that nothing tells from a question


def listed(client: Client) -> list[str]:
    return [one["id"] for one in client.get("chats").json()["results"]]


@pytest.mark.parametrize("calls_tools", first_of([False, True]))
def test_side_request_after_each_turn_is_not_stored(alice: Client, upstream: FakeUpstream, calls_tools: bool) -> None:
    """Qwen Code has its memory updated: the whole history, and a message of its own."""
    state: Messages = []
    for number, text in enumerate(topics(5)):
        state.append(user(text))
        if calls_tools:
            upstream.script("stream", f'normal?tools=[["call_{number}","search_web","{{}}"]]')
            state.append(send(alice, state, tools=[TOOL]).json()["choices"][0]["message"])
            state.append({"role": "tool", "tool_call_id": f"call_{number}", "content": "Nothing found."})
        answer = send(alice, state, tools=[TOOL])
        state.append(assistant(answer_text(answer)))
        send(alice, [*state, user("Extract what is worth remembering from the conversation above.")])
        assert len(listed(alice)) == 1, "the line that goes on"
    assert questions(answer.headers[NAME])[:5] == topics(5)
    assert listed(alice) == [answer.headers[NAME]]
    assert "worth remembering" not in upstream.requests[-2].text
    assert Chat.objects.get(temporary=False).title == FACT


def test_late_side_request_is_set_aside_until_continued(alice: Client, upstream: FakeUpstream) -> None:
    state = [user("One"), assistant(answer_text(send(alice, [user("One")])))]
    two = [*state, user("Two")]
    chat = send(alice, two).headers[NAME]
    two.append(assistant("You said: Two"))
    late = [*state, user("Remember what matters.")]
    side = send(alice, late).headers[NAME]
    assert sorted(listed(alice)) == sorted([chat, side]), "neither goes on"
    assert send(alice, [*two, user("Three")]).headers[NAME] == chat
    assert listed(alice) == [chat]
    assert Chat.objects.get(pk=side).temporary
    late += [assistant("You said: Remember what matters."), user("And more.")]
    assert send(alice, late).headers[NAME] == side
    assert sorted(listed(alice)) == sorted([chat, side]), "both go on"


@pytest.mark.parametrize("is_pinned", [True, False])
def test_named_chat_is_not_set_aside(alice: Client, upstream: FakeUpstream, is_pinned: bool) -> None:
    state = [user("One"), assistant(answer_text(send(alice, [user("One")])))]
    chat = send(alice, [*state, user("Two")]).headers[NAME]
    alice.patch(f"chats/{chat}", json={"pinned": is_pinned})
    other = [*state, user("Three")]
    send(alice, other)
    send(alice, [*other, assistant("You said: Three"), user("Four")])
    assert (chat in listed(alice)) == is_pinned


@pytest.mark.parametrize("title_first", [True, False])
def test_title_request_with_conversation_name_is_no_turn(
    alice: Client, upstream: FakeUpstream, title_first: bool
) -> None:
    """opencode sends both when a session begins."""
    name = {"x-session-id": "ses_1"}
    agent: Messages = [{"role": "system", "content": "You are a coding agent."}]
    title = [
        {"role": "system", "content": "You are a title generator. You output ONLY a thread title."},
        user("Generate a title for this conversation:\n"),
        user(FACT),
    ]
    state = [*agent, user(FACT)]
    if title_first:
        send(alice, title, name)
    state.append(assistant(answer_text(send(alice, state, name))))
    if not title_first:
        send(alice, title, name)
    for text in topics(5)[1:]:
        state.append(user(text))
        answer = send(alice, state, name)
        state.append(assistant(answer_text(answer)))
    assert questions(answer.headers[NAME]) == topics(5)
    assert listed(alice) == [answer.headers[NAME]]
    assert Chat.objects.get(temporary=False).title == FACT
    assert "Generate a title" not in upstream.requests[-1].text


def test_new_session_with_old_name_keeps_first_turn(alice: Client, upstream: FakeUpstream) -> None:
    """A program that forgets its history, and not the name: memory is what it has the server for."""
    name = {"x-session-id": "user 42"}
    chat = send(alice, [user(FACT)], name).headers[NAME]
    again = [user("Hello again")]
    again += [assistant(answer_text(send(alice, again, name))), user(ASKED)]
    assert send(alice, again, name).headers[NAME] == chat
    assert "4711" in upstream.requests[-1].text


# Turns that another server answered, because a person or a gateway chose it in between


@pytest.mark.parametrize("name", [{}, {"x-openwebui-chat-id": "chat-9"}], ids=["unnamed", "named"])
def test_turns_of_another_server_are_added_to_their_chat(
    alice: Client, upstream: FakeUpstream, name: dict[str, str]
) -> None:
    state: Messages = []
    for text in (FACT, "One", "Four", "Five"):
        if text == "Four":
            state += [user("Two"), CALLED, ANSWERED, assistant("It is 17."), user("Three")]
            state += [assistant("It is 18.")]
        answer = send(alice, [*state, user(text)], name)
        state += [user(text), assistant(answer_text(answer))]
    assert answer.headers[DECISION] == "continued"
    assert questions(Chat.objects.get().pk) == [FACT, "One", "Two", "Three", "Four", "Five"]
    assert ("assistant", "It is 18.") in upstream.requests[-1].said
    assert upstream.faults == []


@pytest.mark.parametrize("calls_tools", [False, True], ids=["an answer", "an answer after tools"])
@pytest.mark.parametrize("name", [{}, {"x-openwebui-chat-id": "chat-9"}], ids=["unnamed", "named"])
def test_answer_of_another_server_takes_the_place_of_a_failed_one(
    alice: Client, upstream: FakeUpstream, name: dict[str, str], calls_tools: bool
) -> None:
    state = [user(FACT), assistant(answer_text(send(alice, [user(FACT)], name))), user(ASKED)]
    if calls_tools:
        upstream.script("stream", scripted(("call_a", "look_up_order", '{"order":"AB-1234"}')))
        send(alice, state, name, tools=[LOOK])
        state += [CALLED, ANSWERED]
    upstream.script("stream", "status?code=503")
    body = {"model": "arco", "messages": state, "tools": [LOOK]}
    assert alice.post("chat/completions", json=body, headers=name).status_code == 502
    send(alice, [*state, assistant("It is 4711, says B."), user("Thanks")], name)
    assert ("assistant", "It is 4711, says B.") in upstream.requests[-1].said
    assert questions(Chat.objects.get().pk) == [FACT, ASKED, "Thanks"]


# Two models at once, and conversations that begin alike


def ask_with(client: Client, model: str, state: Messages) -> httpx.Response:
    """Send a request as Open WebUI does for each model that is shown side by side."""
    return send(client, state, {"x-openwebui-chat-id": "chat-7"}, model=model)


def test_two_models_at_once_get_a_chat_each(alice: Client, upstream: FakeUpstream) -> None:
    states: dict[str, Messages] = {"arco": [], "arco-pro": []}
    chats: dict[str, str] = {}
    for number, text in enumerate(("One", "Two", "Three")):
        upstream.script("stream", *(f"normal?text=Answer%20{number}{side}" for side in "ab"))
        for model, state in states.items():
            answer = ask_with(alice, model, [*state, user(text)])
            state += [user(text), assistant(answer_text(answer))]
            assert chats.setdefault(model, answer.headers[NAME]) == answer.headers[NAME]
    assert len(set(chats.values())) == 2
    for model, side in zip(states, "ab", strict=True):
        assert questions(chats[model]) == ["One", "Two", "Three"]
        told = Message.objects.filter(chat_id=chats[model], role="assistant").order_by("seq")
        assert list(told.values_list("content", flat=True)) == [f"Answer {number}{side}" for number in range(3)]
    assert sorted(listed(alice)) == sorted(chats.values())
    fourth = send(alice, [user("Four")], {"x-openwebui-chat-id": "chat-7"}, model="deep-dive")
    assert fourth.headers[NAME] == chats["arco"], "the name is the first model's"


def test_second_model_is_answered_during_first_reply(alice: Client, upstream: FakeUpstream) -> None:
    upstream.hold("stream")
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(ask_with, alice, model, [user("One")]) for model in ("arco", "arco-pro")]
        wait_for(lambda: ActiveReply.objects.count() == 2, "both are answered")
        upstream.release("stream")
        assert {one.result().headers[DECISION] for one in asked} == {"new", "branched"}


def test_second_model_asked_later_replaces_answer(alice: Client, upstream: FakeUpstream) -> None:
    first = ask_with(alice, "arco", [user("One")])
    Message.objects.update(completed_at=timezone.now() - timedelta(seconds=11))
    again = ask_with(alice, "arco-pro", [user("One")])
    assert (again.headers[DECISION], again.headers[NAME]) == ("regenerated", first.headers[NAME])


def test_second_model_replaces_failed_reply(alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", "status?code=500")
    body = {"model": "arco", "messages": [user("One")], "conversation": "c"}
    assert alice.post("chat/completions", json=body).status_code == 502
    assert send(alice, [user("One")], conversation="c", model="arco-pro").headers[DECISION] == "regenerated"


def test_equal_first_questions_at_once_are_all_answered(alice: Client, upstream: FakeUpstream) -> None:
    for _ in range(12):
        state = [user("One"), assistant(answer_text(send(alice, [user("One")])))]
    upstream.hold("stream")
    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(send, alice, [*state, user(f"Topic {number}")]) for number in range(12)]
        wait_for(lambda: ActiveReply.objects.count() == 12, "all are answered")
        upstream.release("stream")
        chats = {one.result().headers[NAME]: number for number, one in enumerate(asked)}
    assert len(chats) == 12
    for chat, number in chats.items():
        assert questions(chat) == ["One", f"Topic {number}"]


# Open WebUI

WITH_DOCUMENTS = (
    "### Task:\nRespond to the user query using the provided context, incorporating inline citations in the format "
    "[id] **only when the <source> tag includes an explicit id attribute**.\n\n<context>\n"
    '<source id="1" name="plan.pdf">The harbour opens at nine.</source>\n</context>\n\nWhen does it open?'
)
TAGS = (
    "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history.\n\n### Chat History:\n"
    "<chat_history>\nUSER: One\nASSISTANT: You said: One\n</chat_history>"
)


@pytest.mark.parametrize(
    ("question", "fields", "decision"),
    first_row_of(
        [
            (WITH_DOCUMENTS, {}, "new"),
            (WITH_DOCUMENTS, {"stream": True, "tools": [TOOL]}, "new"),
            (TAGS, {}, "not stored"),
            (TAGS, {"stream": True}, "new"),
            (TAGS, {"tools": [TOOL]}, "new"),
        ],
        2,
    ),
)
def test_question_with_documents_is_stored(
    alice: Client, upstream: FakeUpstream, question: str, fields: dict[str, Any], decision: str
) -> None:
    answer = send(alice, [user(question)], {"x-openwebui-chat-id": "chat-7"}, **fields)
    assert answer.headers[DECISION] == decision


@pytest.mark.parametrize("history", first_of([[], [user("Before"), assistant("So be it.")]]), ids=["new", "imported"])
@pytest.mark.parametrize("name", ["temporary:1d7f", "local:pQ3x"])
def test_temporary_chat_of_client_is_temporary(
    alice: Client, upstream: FakeUpstream, name: str, history: Messages
) -> None:
    state = [*history, user("One")]
    headers = {"x-openwebui-chat-id": name}
    state.append(assistant(answer_text(send(alice, state, headers))))
    send(alice, [*state, user("Two")], headers)
    chat = Chat.objects.get()
    assert (chat.temporary, chat.title, chat.last_seq) == (True, "", 4 + len(history))
    assert listed(alice) == []

"""Turns with tools that are not finished as planned: tried again, cancelled, edited, deleted, branched, very long."""

import pytest
from django.contrib.auth.models import User
from django.test import Client as Staff
from django.urls import reverse
from openai import OpenAI

from conversations.interchange.read import read_chats
from conversations.interchange.rows import export_chat, import_chat
from conversations.models import Chat
from tests.api.talking import Turn, heard, hold_replies, messages
from tests.api.tool_talk import ANSWERED, CALLED, OUTPUT, QUESTION, ToolTalk, roles, scripted, waiting
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer

THREE_CALLS = (
    scripted(("call_a", "look_up_order", "{}"), ("call_b", "look_up_order", "{}"), text="Let me look."),
    scripted(("call_c", "look_up_order", "{}")),
)
"""Two calls at once, and after their outputs another."""
OUTPUTS = [{**ANSWERED, "tool_call_id": name} for name in ("call_a", "call_b")]


@pytest.fixture
def staff(live: LiveServer) -> Staff:
    made = Staff()
    made.force_login(User.objects.create_superuser("boss"))
    return made


def outputs_are_accepted(talk: ToolTalk, upstream: FakeUpstream) -> None:
    talk.messages = [QUESTION, CALLED, ANSWERED]
    assert talk.create().choices[0].message.content == f"You said: {OUTPUT}"
    chat = Chat.objects.get()
    assert chat.open_seq == 0
    assert [name for name in roles(chat) if name.startswith("tool")] == ["tool_call", "tool"]
    talk.messages.append({"role": "assistant", "content": f"You said: {OUTPUT}"})
    assert talk.turn("Thank you") == "You said: Thank you"
    assert Chat.objects.count() == 1
    assert upstream.faults == []


@pytest.mark.parametrize("way", ["regenerate", "same question"])
def test_a_failed_second_try_leaves_the_turn_open(ask: OpenAI, alice: Client, upstream: FakeUpstream, way: str) -> None:
    talk = waiting(ask, upstream, metadata={"conversation_id": "orders"})
    chat = Chat.objects.get()
    upstream.script("stream", "status?code=500")
    if way == "regenerate":
        reply = chat.messages.get(seq=2)
        alice.post(f"chats/{chat.pk}/messages/{reply.pk}/regenerate", json={"stream": False})
    else:
        with pytest.raises(Exception, match="502"):
            talk.create()
    assert chat.messages.get(seq=4).status == "failed"
    outputs_are_accepted(talk, upstream)


@pytest.mark.parametrize("words", [0, 3])
def test_a_cancelled_second_try_leaves_the_turn_open(
    ask: OpenAI, alice: Client, upstream: FakeUpstream, words: int
) -> None:
    talk = waiting(ask, upstream, metadata={"conversation_id": "orders"})
    chat = Chat.objects.get()
    called = chat.messages.get(seq=2)
    hold_replies(upstream, after=words)
    with alice.stream("POST", f"chats/{chat.pk}/messages/{called.pk}/regenerate", json={"stream": True}) as events:
        turn = Turn.of(next(events).data)
        if words:
            heard(events, words)
        assert alice.post(f"{turn.path}/cancel").status_code == 200
    upstream.behave("normal")
    upstream.release()
    assert chat.messages.get(seq=4).status == "cancelled"
    outputs_are_accepted(talk, upstream)
    exported = "".join(export_chat(chat))
    import_chat(User.objects.get(username="alice"), read_chats(exported)[0])


def finished(ask: OpenAI, upstream: FakeUpstream) -> tuple[ToolTalk, Chat]:
    """Return a chat whose first turn has two calls at once and then another."""
    talk = ToolTalk(ask)
    upstream.script("stream", *THREE_CALLS)
    talk.turn("Where is my order?")
    chat = Chat.objects.get()
    assert roles(chat) == [
        *("user", "assistant", "tool_call", "tool_call", "tool", "tool"),
        *("assistant", "tool_call", "tool", "assistant"),
    ]
    return talk, chat


def everything_works(alice: Client, staff: Staff, chat: Chat, upstream: FakeUpstream) -> None:
    """Check that every prompt is shown, to its owner and to staff, the chat is exported, and the next turn works."""
    for one in messages(alice, str(chat.pk)):
        shown = alice.get(f"chats/{chat.pk}/messages/{one['id']}/context")
        is_reply = one["role"] == "assistant"
        assert shown.status_code == (200 if is_reply else 404), (one["seq"], shown.text)
        if is_reply:
            page = staff.get(reverse("admin:memory_contextrecord_change", args=[one["id"]]))
            assert page.status_code == 200, one["seq"]
    owner = User.objects.get(username="alice")
    exported = "".join(export_chat(chat))
    import_chat(owner, read_chats(exported)[0])
    assert alice.ask("And now?", str(chat.pk))["message"]["status"] == "complete"
    assert upstream.faults == []


def change(alice: Client, chat: Chat, seq: int, how: str) -> None:
    one = chat.messages.get(seq=seq)
    path = f"chats/{chat.pk}/messages/{one.pk}"
    if how == "delete":
        assert alice.delete(path).status_code == 204
    elif one.status != "deleted":
        edited = alice.patch(path, json={"content": "Something else"})
        assert edited.status_code == (409 if one.role == "tool_call" else 200), edited.text


WAYS: list[tuple[tuple[int, str], ...]] = [
    *(((seq, "delete"),) for seq in range(1, 11)),
    *(((seq, "edit"),) for seq in range(1, 11)),
    *(((a, "delete"), (b, "edit")) for a, b in ((3, 7), (7, 3))),
    tuple((seq, "delete") for seq in range(1, 11)),
    tuple((seq, "delete") for seq in range(10, 0, -1)),
]


@pytest.mark.parametrize("way", first_of(WAYS), ids=str)
def test_changed_finished_tool_turn_can_be_shown_and_continued(
    ask: OpenAI, alice: Client, staff: Staff, upstream: FakeUpstream, way: tuple[tuple[int, str], ...]
) -> None:
    _, chat = finished(ask, upstream)
    for seq, how in way:
        change(alice, chat, seq, how)
    everything_works(alice, staff, chat, upstream)


@pytest.mark.parametrize("how", ["delete", "edit"])
@pytest.mark.parametrize("seq", first_of([3, 1, 2, *range(4, 9)]))
def test_changed_open_tool_turn_can_be_shown_and_continued(
    ask: OpenAI, alice: Client, staff: Staff, upstream: FakeUpstream, seq: int, how: str
) -> None:
    talk = ToolTalk(ask, metadata={"conversation_id": "orders"})
    talk.messages.append(QUESTION)
    upstream.script("stream", *THREE_CALLS)
    talk.messages.append(talk.create().choices[0].message.model_dump(exclude_none=True))
    talk.messages += OUTPUTS
    talk.create()
    chat = Chat.objects.get()
    assert chat.last_seq == 8
    change(alice, chat, seq, how)
    again = alice.post("chat/completions", json={"model": "arco", "messages": talk.messages, "conversation": "orders"})
    assert again.status_code < 500, again.text
    everything_works(alice, staff, chat, upstream)


def test_a_branch_that_begins_inside_a_turn_has_a_line_for_it(
    ask: OpenAI, alice: Client, upstream: FakeUpstream
) -> None:
    talk, chat = finished(ask, upstream)
    change(alice, chat, 1, "edit")
    talk.messages = [*talk.messages[:2], {**OUTPUTS[0], "content": "Another output"}, OUTPUTS[1]]
    talk.create()
    assert talk.decisions[-1] == "branched"
    branch = Chat.objects.exclude(pk=chat.pk).get()
    assert branch.messages.get(seq=2).line


def test_a_long_loop_of_tools_fits_its_budget(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    talk = ToolTalk(ask)
    calls = [f"call_{number}" for number in range(12)]
    upstream.script("stream", *(scripted((name, "look_up_order", '{"order":"AB-1234"}')) for name in calls))
    talk.turn("Where are my orders?", output="Order AB-1234 was sent on 4 May. " * 250)
    chat = Chat.objects.get()
    last = upstream.calls("stream")[-1].body["input"]
    assert [item["call_id"] for item in last if item.get("type") == "function_call"] == calls
    assert last[-1]["output"] == chat.messages.filter(role="tool").latest("seq").content
    assert "tokens left out" in last[2]["output"]
    cut = 0
    for reply in chat.messages.filter(role="assistant"):
        shown = alice.get(f"chats/{chat.pk}/messages/{reply.pk}/context").json()
        assert shown["exact"] is True
        opened = [one for one in shown["sections"] if one["kind"] == "open_turn"]
        assert sum(one["tokens"] for one in opened) <= 12_000
        cut += any(one["clipped"] for one in opened)
    assert cut > 5
    assert upstream.faults == []

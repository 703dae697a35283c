"""Chats: created, found, changed, paged and deleted without a trace."""

from conversations.models import Chat, Message
from conversations.replies import generation
from memory.models import ConversationBrief
from tests.api.talking import Turn, begin_reply, error, heard, hold_replies, messages, open_stream, paged
from tests.support.database import traces
from tests.support.factories import add_turns
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer
from tests.support.waiting import wait_for

KEYS = (
    "id title title_is_automatic policy options instructions message_count created_at updated_at metadata "
    "pinned retain_days temporary project across"
).split()
MINE = {
    "title": "Lesson 7",
    "instructions": " Teach. ",
    "options": {"budget": 2000},
    "metadata": {"lesson": [7]},
    "project": "School",
    "across": "pins",
}


def test_a_chat_is_made_read_and_changed(alice: Client, upstream: FakeUpstream) -> None:
    made = alice.post("chats", json=MINE)
    assert made.status_code == 201
    chat = made.json()
    assert sorted(chat) == sorted(KEYS)
    assert {name: chat[name] for name in MINE} == MINE
    assert (chat["policy"], chat["message_count"]) == ("chunked", 0)
    alice.ask("x", chat["id"])
    changed = alice.patch(f"chats/{chat['id']}", json={"title": "New", "metadata": {}}).json()
    assert (changed["title"], changed["metadata"], changed["instructions"]) == ("New", {}, " Teach. ")
    assert changed["message_count"] == 2
    assert changed["updated_at"] > chat["updated_at"]
    assert alice.get(f"chats/{chat['id']}").json() == changed
    assert alice.patch(f"chats/{chat['id']}", json={}).status_code == 200
    empty = alice.post("chats", json={}).json()
    assert (empty["title"], empty["instructions"], empty["options"], empty["metadata"]) == ("", "", {}, {})


def test_a_new_policy_rebuilds_the_memory(alice: Client) -> None:
    chat = alice.post("chats", json={"options": {"k_raw_turns": 4}}).json()["id"]
    assert alice.patch(f"chats/{chat}", json={"title": "x", "policy": "chunked"}).status_code == 200
    assert not ConversationBrief.objects.exists()
    assert alice.patch(f"chats/{chat}", json={"policy": "interval"}).json()["policy"] == "interval"
    assert ConversationBrief.objects.get().requested == "rebuild"


def test_chats_are_listed_newest_first_and_found_by_title(alice: Client, bob: Client) -> None:
    ids = [alice.post("chats", json={"title": f"Chat {n}"}).json()["id"] for n in range(7)]
    bob.post("chats", json={"title": "Chat of Bob"})
    assert [chat["id"] for chat in paged(alice, "chats?limit=3")] == ids[::-1]
    assert [chat["id"] for chat in paged(alice, "chats?search=CHAT 3")] == [ids[3]]
    assert paged(alice, "chats?search=Bob") == []
    assert [chat["id"] for chat in paged(alice, "chats?search=%25")] == []


def test_messages_are_paged_both_ways(alice: Client, upstream: FakeUpstream) -> None:
    chat = alice.ask("x")["chat_id"]
    add_turns(Chat.objects.get(pk=chat), [(f"q{n}", f"a{n}") for n in range(10)])
    up = [row["seq"] for row in paged(alice, f"chats/{chat}/messages?limit=5")]
    down = [row["seq"] for row in paged(alice, f"chats/{chat}/messages?limit=5&order=desc")]
    assert up == down[::-1] == list(range(1, 23))


def test_a_reply_being_written_is_on_the_page_of_the_newest(alice: Client, upstream: FakeUpstream) -> None:
    first = alice.ask("x")["chat_id"]
    add_turns(Chat.objects.get(pk=first), [("q", "a"), ("q", "a")])
    hold_replies(upstream)
    turn = begin_reply(alice, "now", first)
    pages = []
    for path in (f"chats/{first}/messages?limit=3", f"chats/{first}/messages?limit=3&order=desc"):
        page = alice.get(path).json()
        pages.append([row["status"] for row in page["results"]])
        while page["next"]:
            page = alice.http.get(page["next"]).json()
            pages.append([row["status"] for row in page["results"]])
    done = ["complete"] * 3
    assert pages == [done, done, ["complete", "streaming"], ["streaming", *done], done, ["complete"]]
    assert messages(alice, first)[-1]["id"] == turn.reply
    upstream.release()


def test_deleting_leaves_nothing_anywhere(alice: Client, upstream: FakeUpstream) -> None:
    kept = Turn.of(alice.ask("kept"))
    key = {"Idempotency-Key": "k"}
    body = {"message": "gone", "stream": False, "instructions": "i", "sources": [{"text": "s"}]}
    turn = Turn.of(alice.post("message/first", json=body, headers=key).json())
    again = Turn.of(alice.post(f"{turn.path}/regenerate", json={"stream": False}).json())
    alice.post(f"chats/{turn.chat}/resummarize", json={"mode": "rebuild"})
    assert len(traces(turn.chat)) >= 5
    assert alice.delete(f"chats/{turn.chat}").status_code == 204
    assert [traces(one) for one in (turn.chat, turn.reply, turn.question, again.reply)] == [[]] * 4
    error(alice.get(f"chats/{turn.chat}"), 404, "not_found")
    error(alice.delete(f"chats/{turn.chat}"), 404, "not_found")
    assert [chat["id"] for chat in paged(alice, "chats")] == [kept.chat]
    assert len(messages(alice, kept.chat)) == 2


def test_deleting_while_a_reply_is_written(alice: Client, upstream: FakeUpstream, live: LiveServer) -> None:
    hold_replies(upstream)
    with open_stream(alice) as (turn, events):
        heard(events)
        assert alice.delete(f"chats/{turn.chat}").status_code == 204
        assert [event.name for event in events] == ["reconnect"]
    upstream.wait_until(lambda fake: fake.active == 0)
    upstream.release()
    wait_for(lambda: not generation._running)
    assert not Message.objects.exists()
    assert traces(turn.chat) == traces(turn.reply) == []
    error(alice.get(f"{turn.path}/stream"), 404, "not_found")
    assert alice.ask("next")["message"]["status"] == "complete"


def test_delete_chat_during_waiting_request(alice: Client, upstream: FakeUpstream) -> None:
    from concurrent.futures import ThreadPoolExecutor

    hold_replies(upstream)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(alice.post, "message/first", json={"message": "x", "stream": False})
        wait_for(lambda: Chat.objects.exists() and upstream.held())
        assert alice.delete(f"chats/{Chat.objects.get().pk}").status_code == 204
        error(waiting.result(), 404, "not_found")
    upstream.release()

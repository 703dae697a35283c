"""The sources of a reply over HTTP, and messages that are muted because they are not relevant."""

from dataclasses import replace
from typing import Any

import pytest

from conversations.interchange.read import read_chats
from conversations.interchange.rows import export_chat
from conversations.models import Chat, Message
from memory.context.build import past_context
from memory.context.plan import ChatQuotes, Section
from memory.explain import sources as prompt_sources
from memory.recall.ranking import Quote
from tests.api.talking import Turn, begin_reply, error, final, hold_replies, messages
from tests.support.factories import add_turn, add_turns, make_chat, make_user
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import update
from tests.support.live_server import Client

pytestmark = pytest.mark.postgres

FIRST = "The zeppelin is in Lisbon."
QUESTION = "Where is the zeppelin?"
SUMMARY = ["The user moved many desks.", "Nothing else was said."]
KEYS = set("kind chat_id chat_title message_id role said_at text version pin_id muted".split())


def talk(turns: int) -> list[tuple[str, str]]:
    return [(f"Desk {number} was moved to the other side of the hall.", "Noted.") for number in range(turns)]


@pytest.fixture
def chat(alice: Client, upstream: FakeUpstream) -> Chat:
    """A chat with a pin and a summary, whose first message is beyond the window, and later turns that have lines."""
    chat = Chat.objects.get(pk=alice.post("chats", json={"options": {"k_raw_turns": 2}}).json()["id"])
    add_turns(chat, [(FIRST, "Noted."), *talk(40)])
    upstream.behave("normal", lane="complete", text="\n".join(SUMMARY))
    update(chat)
    upstream.behave("normal", lane="complete")
    add_turns(chat, talk(5))
    alice.post(f"chats/{chat.pk}/pins", json={"text": "Answer in metric units."})
    return chat


def sources(client: Client, path: str, *kinds: str) -> list[dict[str, Any]]:
    answer = client.get(f"{path}/sources")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    assert all(set(one) == KEYS for one in found)
    return [one for one in found if not kinds or one["kind"] in kinds]


def first_excerpt(client: Client, turn: Turn) -> dict[str, Any]:
    """Return the excerpt of the chat's first message."""
    return next(one for one in sources(client, turn.path, "excerpt") if one["text"] == FIRST)


def asked(client: Client, chat: Chat, question: str = QUESTION) -> Turn:
    return Turn.of(client.ask(question, str(chat.pk)))


def test_sources_of_a_reply_are_what_stood_in_its_prompt(alice: Client, chat: Chat) -> None:
    long = add_turn(chat, "And so on. " * 40, "Noted.").reply_to
    turn = asked(alice, chat)
    found = sources(alice, turn.path)
    assert list(dict.fromkeys(one["kind"] for one in found)) == ["pin", "summary", "line", "message", "excerpt"]
    assert {one["chat_id"] for one in found} == {turn.chat}
    sections = {one["kind"]: one for one in alice.get(f"{turn.path}/context").json()["sections"]}
    said = {one["id"]: one for one in messages(alice, turn.chat)}
    by_kind = {kind: [one for one in found if one["kind"] == kind] for kind in ("pin", "summary", "line", "message")}
    (pin,) = by_kind["pin"]
    assert (pin["text"], pin["message_id"], pin["role"]) == ("Answer in metric units.", None, None)
    assert [pin["pin_id"]] == [one["id"] for one in alice.get(f"chats/{turn.chat}/pins").json()["results"]]
    assert [one["text"] for one in by_kind["summary"]] == SUMMARY
    assert {one["version"] for one in by_kind["summary"]} == {alice.get(f"chats/{turn.chat}/brief").json()["version"]}
    for one in by_kind["line"]:
        assert f"- {one['text']}" in sections["lines"]["text"].splitlines()
        assert said[one["message_id"]]["content"][:20] in one["text"]
    assert [one["message_id"] for one in by_kind["message"]] == sections["window"]["message_ids"]
    assert [(one["role"], one["said_at"]) for one in by_kind["message"]] == [
        (said[one["message_id"]]["role"], said[one["message_id"]]["created_at"]) for one in by_kind["message"]
    ]
    (cut,) = (one["text"] for one in by_kind["message"] if one["message_id"] == str(long.pk if long else None))
    assert (len(cut) <= 200, cut.startswith("And so on. And"), cut[-1]) == (True, True, "…")
    excerpt = first_excerpt(alice, turn)
    assert said[excerpt["message_id"]]["content"] == FIRST


def test_reply_being_written_has_its_sources(alice: Client, chat: Chat, upstream: FakeUpstream) -> None:
    hold_replies(upstream)
    turn = begin_reply(alice, QUESTION, str(chat.pk))
    found = sources(alice, turn.path)
    assert FIRST in {one["text"] for one in found if one["kind"] == "excerpt"}
    error(alice.patch(turn.path, json={"muted": True}), 409, "chat_busy")
    upstream.release()
    final(alice, turn)
    assert sources(alice, turn.path) == found


def test_what_was_forgotten_is_no_source_any_more(alice: Client, chat: Chat) -> None:
    turn = asked(alice, chat)
    excerpt = first_excerpt(alice, turn)
    window = sources(alice, turn.path, "message")
    for one in (excerpt, window[0]):
        assert alice.delete(f"chats/{turn.chat}/messages/{one['message_id']}").status_code == 204
    assert FIRST not in {one["text"] for one in sources(alice, turn.path)}
    assert sources(alice, turn.path, "summary") == []
    assert sources(alice, turn.path, "message") == window[1:]


def test_message_without_a_prompt_has_no_sources(alice: Client, bob: Client, chat: Chat) -> None:
    turn = asked(alice, chat)
    imported = Message.objects.get(chat=chat, seq=2).pk
    for message in (turn.question, imported):
        path = f"chats/{turn.chat}/messages/{message}"
        told = error(alice.get(f"{path}/sources"), 404, "not_found")
        assert told == error(alice.get(f"{path}/context"), 404, "not_found")
    error(bob.get(f"{turn.path}/sources"), 404, "not_found")


def test_sources_in_other_chats_are_read_with_their_owner(
    alice: Client, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, emptied = make_chat(make_user("alice"), title="The trip"), make_chat(make_user("alice"))
    others = make_chat(make_user("bob"))
    for one in (mine, emptied, others):
        add_turn(one, "My cat is called Ada, and I like tea.", "Noted.")
    quotes = (Quote(1, 0, 20), Quote(1, 22, 36), Quote(7))
    elsewhere = tuple(ChatQuotes(str(one.pk), quotes) for one in (emptied, mine, others))
    turn = asked(alice, chat)

    def with_others(reply: Any) -> Any:
        found = past_context(reply)
        assert found is not None
        context, sent = found
        context = replace(context, sections=(*context.sections, Section("elsewhere", 9)))
        return context, replace(sent, plan=replace(sent.plan, elsewhere=elsewhere))

    monkeypatch.setattr(prompt_sources, "past_context", with_others)
    said = Message.objects.get(chat=emptied, seq=1).pk
    assert alice.delete(f"chats/{emptied.pk}/messages/{said}").status_code == 204
    assert [(one["text"], one["chat_id"], one["chat_title"]) for one in sources(alice, turn.path, "elsewhere")] == [
        ("My cat is called Ada", str(mine.pk), "The trip"),
        ("and I like tea", str(mine.pk), "The trip"),
    ]


def test_a_muted_message_is_not_recalled_until_it_is_unmuted(alice: Client, chat: Chat) -> None:
    before = asked(alice, chat)
    excerpt = first_excerpt(alice, before)
    first = f"chats/{before.chat}/messages/{excerpt['message_id']}"
    assert excerpt["muted"] is False
    told = alice.patch(first, json={"muted": True}).json()
    assert (told["muted"], told["content"], told["edited_at"]) == (True, FIRST, None)
    assert alice.get(first).json() == told
    assert first_excerpt(alice, before) == {**excerpt, "muted": True}
    assert alice.get(f"{before.path}/context").json()["exact"] is True
    question = alice.patch(f"chats/{before.chat}/messages/{before.question}", json={"muted": True}).json()
    after = asked(alice, chat)
    shown = {one["message_id"]: one["muted"] for one in sources(alice, after.path, "message")}
    assert shown[question["id"]] is True, "the window shows it"
    assert not any(one["message_id"] == excerpt["message_id"] for one in sources(alice, after.path))
    (exported,) = read_chats("".join(export_chat(chat)))
    assert [one.muted_at is not None for one in exported.messages[:2]] == [True, False]
    assert alice.patch(first, json={"muted": False}).json()["muted"] is False
    assert first_excerpt(alice, asked(alice, chat)) == excerpt
    told = alice.patch(first, json={"muted": True, "content": "The zeppelin is in Porto."}).json()
    assert (told["muted"], told["content"]) == (True, "The zeppelin is in Porto.")
    for wrong in (None, "yes", 1):
        error(alice.patch(first, json={"muted": wrong}), 400, "invalid_request")

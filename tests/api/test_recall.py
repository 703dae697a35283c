"""What the prompt of a question recalls, over HTTP."""

import pytest

from conversations.models import Chat, Message
from memory.pins.pins import pin_stated, stated_in
from memory.recall import question_search
from tests.support.factories import add_turns
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import update
from tests.support.live_server import Client


def folded_chat(alice: Client, upstream: FakeUpstream, turns: list[tuple[str, str]]) -> Chat:
    chat = Chat.objects.get(pk=alice.post("chats", json={}).json()["id"])
    add_turns(chat, turns)
    pin_stated(chat.key, stated_in(list(Message.objects.filter(**chat.key.columns).order_by("seq"))))
    upstream.behave("normal", lane="complete", text="Nothing.")
    assert update(chat).outcome == "done"
    return chat


def recalled(alice: Client, chat: Chat, question: str) -> tuple[str, str]:
    """How much is sought for a question, and the text of all excerpts."""
    found = alice.post(f"chats/{chat.pk}/context", json={"message": question}).json()
    texts = [section["text"] for section in found["sections"] if section["kind"] == "recall"]
    return found["recall"]["sought"], "".join(texts)


def small_talk(turns: int) -> list[tuple[str, str]]:
    return [(f"Desk {number} was moved to the other side of the hall.", "Noted.") for number in range(turns)]


def test_a_pinned_wish_without_room_among_the_pins_is_recalled_for_a_question_that_shares_no_word(
    alice: Client, upstream: FakeUpstream
) -> None:
    wish = "Always give me timelines in weeks when I mention a deadline."
    preferred = (
        "tea over coffee, trains over planes, jazz over techno, lakes over oceans, linen over wool, chess over cards, "
        "novels over poems, bread over rice, tulips over roses, cellos over drums, apples over pears, sleds over skis, "
        "clay over glass, autumn over spring, cats over dogs, maps over lists"
    ).split(", ")
    wishes = [
        (f"I prefer {one}, whichever shop it comes from and whatever the season of the year.", "Noted.")
        for one in preferred
    ]
    turns = [(wish, "Noted."), *small_talk(60), ("The zeppelin is in Lisbon.", "Noted."), *wishes]
    chat = folded_chat(alice, upstream, [*turns, *small_talk(60)])
    pins = alice.get(f"chats/{chat.pk}/pins").json()
    assert wish in str(pins)
    sought, text = recalled(alice, chat, "Where is the zeppelin?")
    assert (sought, wish in text) == ("all", True)


def test_recall_finds_words_together_that_are_too_common_to_be_read_completely(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"READ_WHOLE": 0, "MIN_PER_TERM": 20, "MAX_PER_TERM": 20}.items():
        monkeypatch.setattr(question_search, name, value)
    first = "The harbour office has a parcel: the blue one."
    common = ["The harbour office closed.", "The office got a parcel.", "The harbour got a parcel."]
    turns = [(f"{common[number % 3]} Day {number}.", "Noted.") for number in range(60)]
    chat = folded_chat(alice, upstream, [(first, "Noted."), *turns])
    assert first in recalled(alice, chat, "Which parcel did the harbour office have?")[1]

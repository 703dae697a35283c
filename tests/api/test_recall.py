"""What the prompt of a question recalls, over HTTP."""

from typing import Any

import pytest

from conversations.models import Chat, Message
from memory.pins.pins import pin_stated, stated_in
from tests.support.factories import add_turns
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import update
from tests.support.live_server import Client

TOPIC = "Lighthouse: the target date, the approved budget and major blockers were on the agenda again, item"
DATE = "Recording the Lighthouse target date as July 31, 2026."


def folded_chat(alice: Client, upstream: FakeUpstream, turns: list[tuple[str, str]], **options: Any) -> Chat:
    chat = Chat.objects.get(pk=alice.post("chats", json={"options": options}).json()["id"])
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


def test_recall_finds_common_words_among_thousand_messages(alice: Client, upstream: FakeUpstream) -> None:
    first = "The harbour office has a parcel: the blue one."
    common = ["The harbour office closed.", "The office got a parcel.", "The harbour got a parcel."]
    turns = [(f"{common[number % 3]} Day {number}.", "Noted.") for number in range(420)]
    chat = folded_chat(alice, upstream, [(first, "Noted."), *turns])
    assert first in recalled(alice, chat, "Which parcel did the harbour office have?")[1]


def test_a_generous_chat_recalls_for_an_order_in_mid_chat_and_a_lean_one_does_not(
    alice: Client, upstream: FakeUpstream
) -> None:
    plan = "The shortlist for the Lighthouse reception has Ottilie and Bertram."
    turns = [(plan, "Noted."), *small_talk(120), ("The Lighthouse shortlist is due.", "Noted.")]
    order = "We have decided to change the Lighthouse shortlist for the reception."
    generous, lean = (folded_chat(alice, upstream, turns, recall=mode) for mode in ("generous", "lean"))
    assert recalled(alice, generous, order)[0] == "some"
    assert plan in recalled(alice, generous, order)[1]
    assert recalled(alice, lean, order) == ("none", "")


@pytest.mark.parametrize(
    "question",
    [
        "Give me the current Lighthouse target date, current approved budget, and whether any major blockers remain.",
        "Where were we with the Lighthouse target date?",
    ],
)
def test_recall_finds_answer_when_window_repeats_question(question: str, alice: Client, upstream: FakeUpstream) -> None:
    noise, newest = small_talk(116), [(f"{TOPIC} {number}.", "Noted.") for number in range(4)]
    chat = folded_chat(alice, upstream, [*noise[:95], (DATE, "Noted."), *noise[95:], *newest])
    sought, text = recalled(alice, chat, question)
    assert (sought, "July 31, 2026" in text) == ("all", True)

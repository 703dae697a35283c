"""The page of a chat: its turns and their places in memory, search, and the memory beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from conversations import chat_lifecycle
from conversations.message_changes import forget_message
from conversations.models import Chat, ContentView, Message
from memory.admin.chat.timeline import MOST_CHARS, TURNS, head_and_rest
from memory.explain.timeline import Place
from memory.models import ConversationBrief, SummaryRevision
from tests.admin.rows import add_revision, begin, make_chat, member_of_staff, say, text_of
from tests.support import factories
from tests.support.exhaustive import first_of

pytestmark = pytest.mark.django_db

CANARY = "the heron in the reeds"
VIEWS = ("view_chat", "view_message", "view_conversationbrief", "view_summaryrevision", "view_contextrecord")


def page(client: Client, chat: Chat, **query: Any) -> Any:
    answer = client.get(reverse("admin:conversations_chat_change", args=[chat.pk]), query)
    assert answer.status_code == 200
    return answer


def spans(answer: Any) -> list[tuple[int, int]]:
    return [(one.turn.from_seq, one.turn.through_seq) for one in answer.context["timeline"].moments]


def places(answer: Any) -> list[Place]:
    return [one.mark.place for one in answer.context["timeline"].moments]


# Places of turns


def test_each_turn_says_where_it_stands_and_by_which_revision(staff: Client, remembered: Chat) -> None:
    answer = page(staff, remembered)
    assert places(answer) == ["folded"] * 2 + ["verbatim"] * 5
    html = answer.content.decode()
    for revision in SummaryRevision.objects.filter(chat=remembered):
        url = reverse("admin:memory_summaryrevision_change", args=[revision.pk])
        assert f'summarized in <a href="{url}">version {revision.version}</a>' in html
    assert html.count("in full in the next prompt") == 5


def test_marks_are_those_of_the_last_question(staff: Client, owner: User) -> None:
    """The last question needs earlier turns, so its prompt and the page show the turns before the window as lines."""
    chat = factories.make_chat(owner)
    harbour = "harbour lamps " * 30
    talk = [(f"Note {number}: {harbour}", harbour) for number in range(30)]
    factories.add_turns(chat, [*talk, ("Thanks, that is all.", "You are welcome.")])
    before = places(page(staff, chat)).count(Place.VERBATIM)
    factories.add_turns(chat, [("What was note 3 about?", "Harbours.")])
    answer = page(staff, chat)
    assert before > 3
    assert places(answer).count(Place.VERBATIM) == 3
    assert "Recalled from earlier" in answer.content.decode()


def test_a_turn_folded_again_is_held_by_the_revision_in_use(staff: Client, remembered: Chat) -> None:
    """Version 2 was restored over a rebuild, so no turn is attributed to the rebuild."""
    add_revision(remembered, 3, "All of it.", through=4)
    SummaryRevision.objects.filter(chat=remembered, version=3).update(kind="rebuild", from_seq=1)
    add_revision(remembered, 4, "As before.", through=4)
    SummaryRevision.objects.filter(chat=remembered, version=4).update(
        kind="restore", parent=2, from_seq=5, turns=0
    )
    answer = page(staff, remembered)
    assert [one.mark.fold.version for one in answer.context["timeline"].moments[:2]] == [1, 2]
    assert answer.context["coverage"].folded == 2


def test_long_chats_stand_as_lines_and_beyond_them_in_recall(staff: Client, owner: User) -> None:
    chat = factories.make_chat(owner)
    factories.add_turns(chat, [(f"Question {n}. " + "so " * 300, "Well, " * 300) for n in range(250)])
    newest, oldest = page(staff, chat), page(staff, chat, after=0)
    assert places(newest)[-1] == Place.VERBATIM
    assert Place.LINE in places(newest)
    assert set(places(oldest)) == {Place.RECALL}
    assert "One-line summary:</b> " in newest.content.decode()
    assert "recall only" in oldest.content.decode()
    coverage = newest.context["coverage"]
    assert (coverage.total, coverage.folded) == (250, 0)
    assert coverage.gap > 100


def test_replies_that_did_not_end_well_say_how(staff: Client, owner: User) -> None:
    chat = factories.make_chat(owner)
    for status in ("incomplete", "cancelled", "failed"):
        factories.add_turn(
            chat, f"Why {status}?", "Because" if status != "failed" else "", status, error={"code": "refused"}
        )
    replaced = factories.add_turn(chat, "Again?", "The old answer")
    newer = factories.add_turn(chat, "Once more?", "The new answer")
    Message.objects.filter(pk=replaced.pk).update(superseded_by=newer)
    forgotten = factories.add_turn(chat, "Forget this", "As you wish")
    forget_message(chat.pk, forgotten.pk)
    html = page(staff, chat).content.decode()
    for said in (">cut off<", ">cancelled<", ">failed: refused<", ">deleted<", "Its text was deleted."):
        assert said in html, said
    assert re.search(rf"replaced by <a href=\"\?at={newer.seq}#m{newer.seq}\">message {newer.seq}</a>", html)
    assert "As you wish" not in html


def test_a_reply_being_written_is_shown_as_such(staff: Client, remembered: Chat) -> None:
    begin(remembered, "And then?", "a key")
    answer = page(staff, remembered)
    last = answer.context["timeline"].moments[-1]
    assert last.mark.place == Place.WAITING
    assert [bubble.status for bubble in last.bubbles] == ["complete", "streaming"]
    assert ">being written<" in answer.content.decode()


def test_each_reply_with_a_record_is_one_click_from_what_the_model_saw(
    staff: Client, remembered: Chat
) -> None:
    html = page(staff, remembered).content.decode()
    reply = Message.objects.get(chat=remembered, seq=14)
    url = reverse("admin:memory_contextrecord_change", args=[reply.pk])
    assert html.count("Prompt sent</a>") == 1  # the others were imported
    assert f'href="{url}">Prompt sent</a>' in html


def test_a_long_message_is_cut_without_losing_a_letter_and_leads_to_the_rest(
    staff: Client, owner: User
) -> None:
    text = "".join(f"word{number} " for number in range(20_000))
    chat = factories.make_chat(owner)
    factories.add_turn(chat, "Say much", text)
    answer = page(staff, chat)
    reply = answer.context["timeline"].moments[0].bubbles[1]
    assert text.startswith(reply.head + reply.rest)
    assert len(reply.head + reply.rest) == MOST_CHARS
    assert reply.missing == len(text) - MOST_CHARS
    html = answer.content.decode()
    assert "Show more" in html
    assert f"{reply.missing:,} more characters on" in html
    assert len(html) < 100_000


@pytest.mark.parametrize("text", ["", "short", "a" * 5000, "word " * 1000, "line\n" * 1000, "漢字" * 1000])
def test_head_and_rest_are_the_whole(text: str) -> None:
    head, rest = head_and_rest(text)
    assert head + rest == text
    assert len(head) <= 720


# Paging


@pytest.fixture
def long(owner: User) -> Chat:
    return make_chat(owner, turns=100)


def test_the_newest_page_comes_first_and_pages_meet(staff: Client, long: Chat) -> None:
    seen: list[tuple[int, int]] = []
    answer = page(staff, long)
    while True:
        shown = spans(answer)
        assert len(shown) <= TURNS
        seen = shown + seen
        older = answer.context["timeline"].older
        if older is None:
            break
        answer = page(staff, long, before=older)
    assert seen == [(seq, seq + 1) for seq in range(1, 200, 2)]


def test_one_can_go_on_from_the_first_page_to_the_last(staff: Client, long: Chat) -> None:
    seen: list[tuple[int, int]] = []
    after: int | None = 0
    while after is not None:
        answer = page(staff, long, after=after)
        seen += spans(answer)
        after = answer.context["timeline"].newer
    assert seen == [(seq, seq + 1) for seq in range(1, 200, 2)]


@pytest.mark.parametrize("seq", first_of([1, 2, 99, 100, 199, 200]))
def test_a_page_opens_at_any_message_and_shows_it(staff: Client, long: Chat, seq: int) -> None:
    answer = page(staff, long, at=seq)
    assert any(low <= seq <= high for low, high in spans(answer))
    html = answer.content.decode()
    assert html.count("you are here") == 1
    assert re.search(rf'cm-is-at"\s+id="m{seq}"', html)


@pytest.mark.parametrize(
    "query",
    first_of(
        [
            *({"at": "0"}, {"at": "100000"}, {"at": "-1"}, {"at": "x"}, {"at": "9" * 40}, {"at": "٣"}),
            *(
                {"before": "0"},
                {"before": "99999999999"},
                {"after": "2147483647"},
                {"after": "1e3"},
                {"after": ""},
            ),
        ]
    ),
)
def test_a_nonsense_place_is_no_error(staff: Client, long: Chat, query: dict[str, str]) -> None:
    page(staff, long, **query)
    page(staff, make_chat(long.owner, turns=0), **query)


def test_a_question_asked_a_hundred_times_is_one_turn_of_some_pages(staff: Client, owner: User) -> None:
    chat = factories.make_chat(owner)
    last = factories.add_turn(chat, "Again?", "Answer 0")
    rows = [
        Message(
            chat=chat, seq=seq, role="assistant", content=f"Answer {seq}", status="complete", token_count=2,
            reply_to=last.reply_to, created_at=timezone.now(),
        )
        for seq in range(3, 203)
    ]  # fmt: skip
    Message.objects.bulk_create(rows)
    Chat.objects.filter(pk=chat.pk).update(last_seq=202)
    chat.refresh_from_db()
    seen: set[int] = set()
    after: int | None = 0
    while after is not None:
        shown = page(staff, chat, after=after).context["timeline"]
        seen |= {bubble.seq for one in shown.moments for bubble in one.bubbles}
        after = shown.newer
    assert seen == set(range(1, 203))
    assert any(
        bubble.seq == 150
        for one in page(staff, chat, at=150).context["timeline"].moments
        for bubble in one.bubbles
    )


# Cost


@pytest.mark.parametrize("asked", first_of([{}, {"after": 0}, {"at": 5}, {"q": "hello"}]))
@pytest.mark.exhaustive
def test_a_page_costs_the_same_however_long_the_chat(
    staff: Client, sizes: list[Chat], asked: dict[str, Any]
) -> None:
    # With work pending, the page also checks whether a worker runs.
    ConversationBrief.objects.update(due=False)
    counts = []
    for chat in [sizes[0], *sizes]:  # the first request also loads what is looked up once per process
        with CaptureQueriesContext(connection) as captured:
            page(staff, chat, **asked)
        counts.append(len(captured))
    assert counts[1] == counts[2] <= 27


@pytest.fixture(scope="module")
def sizes(django_db_setup: None, django_db_blocker: Any) -> Iterator[list[Chat]]:
    """A chat of 10 turns and one of 2,000, both completely folded, in a transaction that is never committed."""
    with django_db_blocker.unblock(), transaction.atomic():
        owner = User.objects.create_user("long-winded")
        chats = [make_chat(owner, turns=turns) for turns in (10, 2000)]
        for chat in chats:
            for version in (1, 2, 3):
                add_revision(chat, version, "Said hello.", through=chat.last_seq * version // 3 // 2 * 2)
            SummaryRevision.objects.filter(chat=chat, version=1).update(from_seq=1)
        yield chats
        transaction.set_rollback(True)


# Searching


def test_it_finds_what_was_said_and_where_it_stands_now(staff: Client, remembered: Chat) -> None:
    say(remembered, "The hostel takes 42 guests", "Noted: 42 guests.")
    html = page(staff, remembered, q="guests").content.decode()
    assert "Found in 2 messages" in html
    assert "<mark>guests</mark>" in html
    assert '<a href="?at=15#m15">Message 15</a>' in html
    assert "Nothing found" in page(staff, remembered, q="zeppelin").content.decode()


def test_it_finds_in_this_chat_alone(staff: Client, remembered: Chat, owner: User) -> None:
    say(make_chat(owner), "A zeppelin!", "Indeed a zeppelin.")
    assert page(staff, remembered, q="zeppelin").context["found"] == []


@pytest.mark.parametrize(
    "query", first_of(["AND OR NOT", '"', "*", "()'--", "x" * 100_000, " ", "the", "^:-"], 2)
)
def test_no_query_is_an_error(staff: Client, remembered: Chat, query: str) -> None:
    page(staff, remembered, q=query)


# The memory beside it


def test_the_memory_tells_its_troubles_in_words(staff: Client, remembered: Chat) -> None:
    ConversationBrief.objects.filter(chat=remembered).update(
        last_error={"code": "upstream_timeout", "message": "The model took 40 s.", "attempt": 3},
        attempts=3,
        next_attempt_at=timezone.now(),
        degraded=True,
        due=True,
        requested="rebuild",
    )
    html = page(staff, remembered).content.decode()
    for told in (
        "3 failed attempts. The model did not answer in time.",
        "Until then, a version by the built-in summarizer is in use.",
        *("The model took 40 s.", "The room is booked.", "In use: "),
    ):
        assert told in html, told


def test_what_is_due_says_when_it_goes_on(staff: Client, remembered: Chat) -> None:
    ConversationBrief.objects.filter(chat=remembered).update(
        due=True, attempts=1, next_attempt_at=timezone.now() + timedelta(minutes=5)
    )
    assert "The next attempt comes in 5 minutes." in page(staff, remembered).content.decode()


def test_the_bars_add_up(staff: Client, remembered: Chat) -> None:
    context = page(staff, remembered).context
    assert sum(part.turns for part in context["coverage"].parts) == context["coverage"].total == 7
    budget = context["budget"]
    assert sum(part.count for part in budget.parts) == budget.budget
    assert budget.tokens == services_tokens(context["chat"])


def services_tokens(chat: Chat) -> int:
    from memory.services import preview

    return preview(chat).tokens


def test_empty_chats_have_a_page(staff: Client, owner: User) -> None:
    empty = chat_lifecycle.create_chat(owner)
    assert "No messages yet." in page(staff, empty).content.decode()
    ConversationBrief.objects.filter(chat=empty).delete()
    assert "No summary yet" in page(staff, empty).content.decode()
    bare = Chat.objects.create(owner=owner, policy="chunked")
    page(staff, bare, at=1)


# Permissions


def test_without_the_permission_there_are_counts_marks_and_lengths(remembered: Chat) -> None:
    say(remembered, CANARY, f"Indeed {CANARY}")
    ConversationBrief.objects.filter(chat=remembered).update(
        global_summary=CANARY, last_error={"message": CANARY}
    )
    clerk = member_of_staff("clerk", *VIEWS)
    answer = page(clerk, remembered, q="heron")
    html = answer.content.decode()
    assert CANARY not in html
    assert f"{len(CANARY)} characters, hidden" in html
    assert places(answer).count(Place.FOLDED) == 2
    assert "<mark>" not in html
    assert 'name="q"' not in html
    assert ContentView.objects.count() == 0


def test_each_page_of_the_timeline_that_is_read_is_recorded(remembered: Chat) -> None:
    reader = member_of_staff("reader", *VIEWS, "view_content")
    Chat.objects.filter(pk=remembered.pk).update(title="", metadata={}, instructions="")
    page(reader, remembered)
    page(reader, remembered, after=0)
    page(reader, remembered, q="hostel")
    assert ContentView.objects.filter(page="conversations_chat", object_id=str(remembered.pk)).count() == 3


@pytest.mark.parametrize("may", [False, True])
def test_cost_shows_to_those_who_may_see_it(remembered: Chat, may: bool) -> None:
    Message.objects.filter(chat=remembered, seq=14).update(cost_usd="0.123456")
    client = member_of_staff("payer", *VIEWS, *(["view_cost"] if may else []))
    reply = Message.objects.get(chat=remembered, seq=14)
    assert ("$0.1235" in page(client, remembered).content.decode()) == may
    for name in ("conversations_message", "memory_contextrecord"):
        assert ("$0.1235" in text_of(client, f"{name}_change", reply.pk)) == may, name


def test_it_says_how_much_of_a_long_chat_is_sent(staff: Client) -> None:
    chat = factories.make_chat()
    factories.add_turns(chat, [(f"Note {number} of the harbour. " * 30, "Noted.") for number in range(60)])
    answer = page(staff, chat)
    said = answer.context["said_tokens"]
    assert said == ConversationBrief.objects.get(chat=chat).unfolded_tokens > answer.context["budget"].tokens
    assert f"<b>{said:,}</b> tokens said → <b>" in answer.content.decode()

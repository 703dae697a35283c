"""The page of a chat: its turns and their places in memory, pins, tracing, deleting, and the actions on memory."""

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_q.models import OrmQ

from conversations import chat_lifecycle
from conversations.message_changes import forget_message
from conversations.models import ActiveReply, Chat, ContentView, IdempotencyKey, Message
from memory.admin.chats import TEXT_CHARS
from memory.models import ContextRecord, ConversationBrief, Pin, SummaryRevision
from memory.pins.pins import pin, pin_statements
from tests.admin.rows import add_revision, begin, make_chat, member_of_staff, queries, say, text_of
from tests.support import factories
from tests.support.exhaustive import first_of

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

CHAT = "conversations_chat_change"
METRIC = "Always answer in metric units."


def page(client: Client, chat: Chat, **query: Any) -> Any:
    answer = client.get(reverse(f"admin:{CHAT}", args=[chat.pk]), query)
    assert answer.status_code == 200
    return answer


def spans(answer: Any) -> list[tuple[int, int]]:
    return [(one.turn.from_seq, one.turn.through_seq) for one in answer.context["timeline"].moments]


def places(answer: Any) -> list[str]:
    return [one.mark.place for one in answer.context["timeline"].moments]


# Places of turns


def test_each_turn_says_where_it_is_and_in_which_version(staff: Client, remembered: Chat) -> None:
    answer = page(staff, remembered)
    assert places(answer) == ["folded"] * 2 + ["verbatim"] * 5
    text = answer.content.decode()
    for version in SummaryRevision.objects.filter(chat=remembered):
        url = reverse("admin:memory_summaryrevision_change", args=[version.pk])
        assert f'summarized in <a href="{url}">version {version.version}</a>' in text
    assert text.count("in full in the next prompt") == 5
    assert "Where the 7 finished turns are" in text
    assert re.search(r"<b>2</b>\s+In the summary", text)
    assert "The room is booked." in text
    record = ContextRecord.objects.get(reply__chat=remembered)
    url = reverse("admin:memory_contextrecord_change", args=[record.pk])
    assert text.count("Prompt sent</a>") == 1  # the other turns were imported
    assert f'href="{url}">Prompt sent</a>' in text


def test_long_chats_are_shown_as_lines_and_beyond_them_as_recall_only(staff: Client, owner: User) -> None:
    chat = factories.make_chat(owner)
    factories.add_turns(chat, [(f"Question {n}. " + "so " * 300, "Well, " * 300) for n in range(250)])
    newest, oldest = page(staff, chat), page(staff, chat, **{"from": 1})
    assert places(newest)[-1] == "verbatim"
    assert "line" in places(newest)
    assert set(places(oldest)) == {"recall"}
    assert "One-line summary:</b> " in newest.content.decode()
    assert newest.context["coverage"][1].count > 100


def test_replies_that_did_not_end_well_say_how(staff: Client, owner: User) -> None:
    chat = factories.make_chat(owner)
    for status, said in (("incomplete", "Because"), ("cancelled", "Because"), ("failed", "")):
        factories.add_turn(chat, f"Why {status}?", said, status, error={"code": "refused"})
    replaced = factories.add_turn(chat, "Again?", "The old answer")
    newer = factories.add_turn(chat, "Once more?", "The new answer")
    Message.objects.filter(pk=replaced.pk).update(superseded_by=newer)
    forgotten = factories.add_turn(chat, "Forget this", "As you wish")
    forget_message(chat.key, forgotten.pk)
    begin(chat, "And then?", "a key")
    answer = page(staff, chat)
    text = answer.content.decode()
    for said in (">cut off<", ">cancelled<", ">failed: refused<", ">deleted<", "Its text was deleted."):
        assert said in text, said
    assert f'replaced by <a href="?at={newer.seq}#m{newer.seq}">message {newer.seq}</a>' in text
    assert "As you wish" not in text
    assert places(answer)[-1] == "waiting"
    assert ">being written<" in text


def test_a_long_message_is_cut_and_leads_to_the_rest(staff: Client, owner: User) -> None:
    chat = factories.make_chat(owner)
    factories.add_turn(chat, "Say much", "word " * 20_000)
    answer = page(staff, chat)
    reply = answer.context["timeline"].moments[0].messages[1]
    assert len(reply.text) == TEXT_CHARS
    assert f"{100_000 - TEXT_CHARS:,} more characters on" in answer.content.decode()


# Paging


@pytest.fixture
def long(owner: User) -> Chat:
    return make_chat(owner, turns=100)


def pages(client: Client, chat: Chat, direction: str, start: int | None) -> Iterator[Any]:
    """Yield the pages of a chat from `start`, or from the newest, in a direction."""
    query: dict[str, Any] | None = {"from": start} if start else {}
    while query is not None:
        answer = page(client, chat, **query)
        yield answer
        following = getattr(answer.context["timeline"], direction)
        query = {"from": following} if following else None


def test_pages_meet_in_both_directions(staff: Client, long: Chat) -> None:
    every = [(seq, seq + 1) for seq in range(1, 200, 2)]
    assert sorted({span for one in pages(staff, long, "older", None) for span in spans(one)}) == every
    assert [span for one in pages(staff, long, "newer", 1) for span in spans(one)] == every
    assert "cm-from-end" in page(staff, long).content.decode(), "it opens at the newest"


def test_a_page_opens_at_any_message_and_shows_it(staff: Client, long: Chat) -> None:
    for seq in (1, 2, 99, 100, 199, 200):
        answer = page(staff, long, at=seq)
        assert any(low <= seq <= high for low, high in spans(answer)), seq
        assert answer.content.decode().count("you are here") == 1, seq


def test_a_question_asked_a_hundred_times_is_one_turn_of_some_pages(staff: Client, owner: User) -> None:
    chat = factories.make_chat(owner)
    last = factories.add_turn(chat, "Again?", "Answer 0")
    fields = {"role": "assistant", "status": "complete", "token_count": 2, "created_at": timezone.now()}
    Message.objects.bulk_create(
        Message(chat=chat, seq=seq, content=f"Answer {seq}", reply_to=last.reply_to, **fields) for seq in range(3, 203)
    )
    Chat.objects.filter(pk=chat.pk).update(last_seq=202)
    for direction, start in (("newer", 1), ("older", None)):
        shown = [one.context["timeline"].moments for one in pages(staff, chat, direction, start)]
        seen = {message.seq for moments in shown for moment in moments for message in moment.messages}
        assert seen == set(range(1, 203)), direction


def test_a_page_opens_at_a_message_of_a_turn_that_goes_on_beyond_it(staff: Client, long: Chat) -> None:
    Message.objects.filter(chat=long, seq__range=(92, 190)).update(role="assistant")
    assert (91, 142) in spans(page(staff, long, at=99))


def test_a_page_costs_the_same_however_long_the_chat(staff: Client, owner: User) -> None:
    def cost(turns: int) -> int:
        chat = make_chat(owner, turns=turns)
        add_revision(chat, 1, "Said hello.", through=2)
        return len(queries(lambda: page(staff, chat)))

    cost(1)  # loads what is looked up once per process
    assert cost(60) == cost(120) <= 30


def test_a_chat_without_messages_has_a_page_opened_at_any_place(staff: Client, owner: User) -> None:
    chat = chat_lifecycle.create_chat(owner)
    text = page(staff, chat).content.decode()
    assert "0 messages" in text
    assert "No messages yet." in text
    for odd in ({"at": "0"}, {"at": "x"}, {"at": "9" * 40}, {"at": "٣"}, {"from": "0"}, {"from": "999"}):
        page(staff, chat, **odd)


def test_chat_page_shows_cost_with_permission(remembered: Chat) -> None:
    reply = Message.objects.get(chat=remembered, seq=14)
    Message.objects.filter(pk=reply.pk).update(cost_usd="0.0012")
    views = ("view_chat", "view_message", "view_contextrecord", "view_content")
    clerk, payer = member_of_staff("clerk", *views), member_of_staff("payer", *views, "view_cost")
    of_reply = ("conversations_message_change", "memory_contextrecord_change")
    for name, pk in ((CHAT, remembered.pk), *((name, reply.pk) for name in of_reply)):
        assert "$0.0012" in text_of(payer, name, pk)
        assert "$0.0012" not in text_of(clerk, name, pk)


# Pins


@pytest.fixture
def pinned(owner: User, remembered: Chat) -> Chat:
    """A chat with a pin that was detected, and one made by its owner."""
    say(remembered, METRIC, "I will.")
    pin_statements(remembered.messages.get(content=METRIC))
    pin(owner, remembered.pk, text="The code word is <b>heron</b>.")
    return remembered


def test_pins_are_shown_with_origin_and_can_be_removed(staff: Client, pinned: Chat) -> None:
    text = page(staff, pinned).content.decode()
    for words in (METRIC, "The code word is &lt;b&gt;heron&lt;/b&gt;.", "found by rule", "Pinned · olga"):
        assert words in text
    pin = Pin.objects.get(by="rule")
    where = f"/admin/conversations/chat/{pinned.pk}/pins/{pin.pk}/remove/"
    reader = member_of_staff("reader", "view_chat", "view_content")
    assert "/remove/" not in page(reader, pinned).content.decode()
    assert reader.post(where).status_code == 403
    assert staff.get(where).status_code == 405
    assert "The pin was removed" in staff.post(where, follow=True).content.decode()
    assert list(Pin.objects.filter(ended_at=None).values_list("by", flat=True)) == ["user"]
    Pin.objects.all().delete()
    assert "already removed" in staff.post(where, follow=True).content.decode()


# Tracing a fact


@pytest.fixture
def chat_with_lost_fact(owner: User) -> Chat:
    """A chat that says at its beginning where to sleep; the second version of its summary has lost that."""
    chat = make_chat(owner, said="The hostel is Zeppelin")
    add_revision(chat, 1, "They sleep at the Zeppelin hostel.", through=2)
    add_revision(chat, 2, "They sleep well.", through=4)
    say(chat, "And what of the rain?", "None.")
    return chat


def traced(client: Client, chat: Chat, **query: str) -> str:
    """Return the page's text, without tags."""
    text = text_of(client, "conversations_chat_trace", chat.pk, **query).partition('id="content-main"')[2]
    return re.sub(r"\s+([.,;])", r"\1", " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split()))


def test_a_trace_leads_from_the_messages_to_the_version_that_lost_the_fact(
    staff: Client, chat_with_lost_fact: Chat
) -> None:
    shown = traced(staff, chat_with_lost_fact, text="zeppelin")
    for words in (
        "Said in 12 messages, newest first",
        "Trace a fact Lost in version 2 In version 1; lost",
        "In version 1; lost in version 2 (↧ updated) with messages 3–4",
        "The prompt would contain it:",
    ):
        assert words in shown
    source = text_of(staff, "conversations_chat_trace", chat_with_lost_fact.pk, text="zeppelin")
    second = SummaryRevision.objects.get(chat=chat_with_lost_fact, version=2)
    url = f"{reverse('admin:memory_summaryrevision_change', args=[second.pk])}?against=1#difference"
    assert f'href="{url}"' in source
    assert "In the summary now In versions 1–2, the newest." in traced(staff, chat_with_lost_fact, text="sleep")


def test_trace_reports_unknown_facts_and_bad_queries(staff: Client, chat_with_lost_fact: Chat) -> None:
    nothing = traced(staff, chat_with_lost_fact, text="heron")
    for words in ("Never said", "In no version of the summary", "The prompt would not contain it."):
        assert words in nothing
    assert "only very common words" in traced(staff, chat_with_lost_fact, text="the")
    assert "Enter a number, a name or a few words" in traced(staff, chat_with_lost_fact, text=" ")


# Deleting


def is_deleted(chat: Chat) -> bool:
    of_chat: list[Any] = [Message, SummaryRevision, ConversationBrief, ActiveReply, IdempotencyKey]
    rows = [model._default_manager.filter(chat_id=chat.pk) for model in of_chat]
    rows += [Chat.objects.filter(pk=chat.pk), ContextRecord.objects.filter(reply__chat_id=chat.pk)]
    return not any(found.exists() for found in rows)


def test_chats_are_deleted_with_all_that_stems_from_them(staff: Client, remembered: Chat, owner: User) -> None:
    other, kept = make_chat(owner), make_chat(owner)
    assert "Messages: 14" in text_of(staff, "conversations_chat_delete", remembered.pk)
    form = {"action": "delete_selected", "_selected_action": [str(remembered.pk), str(other.pk)]}
    url = reverse("admin:conversations_chat_changelist")
    viewer = member_of_staff("viewer", "view_chat", "view_message", "view_content")
    one = reverse("admin:conversations_chat_delete", args=[remembered.pk])
    assert viewer.post(one, {"post": "yes"}).status_code == 403
    viewer.post(url, {**form, "post": "yes"})
    assert not is_deleted(remembered)
    assert b"Messages: 26" in staff.post(url, form).content
    staff.post(url, {**form, "post": "yes"})
    assert is_deleted(remembered)
    assert is_deleted(other)
    assert not is_deleted(kept)


def test_messages_are_forgotten_but_not_a_question_that_is_being_answered(staff: Client, remembered: Chat) -> None:
    message = Message.objects.get(chat=remembered, seq=3)
    viewer = member_of_staff("viewer", "view_message", "view_content")
    url = reverse("admin:conversations_message_delete", args=[message.pk])
    assert viewer.post(url, {"post": "yes"}).status_code == 403
    assert "Message 3 of A trip" in text_of(staff, "conversations_message_delete", message.pk)
    staff.post(url, {"post": "yes"})
    message.refresh_from_db()
    assert (message.status, message.content) == ("deleted", "")
    question = begin(remembered, "And then?", "a key").user_message
    url = reverse("admin:conversations_message_delete", args=[question.pk])
    assert "its answer is being written" in staff.get(url).content.decode()
    staff.post(url, {"post": "yes"})
    others = [str(one.pk) for one in Message.objects.filter(chat=remembered, seq__in=[5, 7])]
    form = {"action": "delete_selected", "_selected_action": others, "post": "yes"}
    staff.post(reverse("admin:conversations_message_changelist"), form)
    question.refresh_from_db()
    assert question.content == "And then?"
    assert Message.objects.filter(chat=remembered, status="deleted").count() == 3


# Actions on memory


@pytest.mark.parametrize("name", first_of(["conversations_chat", "memory_conversationbrief"]))
@pytest.mark.parametrize(("action", "requested"), [("update_memory", "update"), ("rebuild_memory", "rebuild")])
def test_memory_is_made_anew_after_a_confirmation(
    name: str, action: str, requested: str, staff: Client, owner: User
) -> None:
    chats = [make_chat(owner) for _ in range(3)]
    form: dict[str, Any] = {"action": action, "_selected_action": [str(chat.pk) for chat in chats[:2]]}
    url = reverse(f"admin:{name}_changelist")
    assert "2 chats" in staff.post(url, form).content.decode()
    assert not ConversationBrief.objects.exclude(requested="").exists()
    assert not OrmQ.objects.exists()
    answer = staff.post(url, {**form, "confirmed": "yes"}, follow=True).content.decode()
    assert "requested for 2 chats." in answer
    found = dict(ConversationBrief.objects.values_list("chat_id", "requested"))
    assert [found[chat.pk] for chat in chats] == [requested, requested, ""]
    assert OrmQ.objects.count() == 2
    assert LogEntry.objects.filter(object_id=str(chats[0].pk)).count() == 1


def test_all_chats_of_a_search_can_be_chosen(staff: Client, owner: User) -> None:
    for number in range(3):
        make_chat(owner, title=f"Trip {number}")
    other = make_chat(owner, title="Tea")
    url = f"{reverse('admin:conversations_chat_changelist')}?q=trip"
    form = {"action": "rebuild_memory", "_selected_action": str(other.pk), "select_across": "1", "index": "0"}
    answer = staff.post(url, form).content.decode()
    assert "3 chats" in answer
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([\w-]+)">', answer)
    staff.post(url, dict(hidden))
    assert ConversationBrief.objects.filter(requested="rebuild").count() == 3
    assert ConversationBrief.objects.get(chat=other).requested == ""


def test_a_confirmation_for_one_chat_names_it_with_an_estimate(staff: Client, remembered: Chat) -> None:
    form = {"action": "rebuild_memory", "_selected_action": [str(remembered.pk)]}
    url = reverse("admin:conversations_chat_changelist")
    answer = staff.post(url, form).content.decode()
    assert "A trip</b>?" in answer
    assert "summarizer call" in answer
    assert ContentView.objects.filter(chat_id=remembered.pk).exists()
    done = staff.post(url, {**form, "confirmed": "yes"})
    assert done["Location"] == reverse(f"admin:{CHAT}", args=[remembered.pk])


def test_updates_are_paused_and_resumed_and_the_summary_cleared(staff: Client, remembered: Chat) -> None:
    url = reverse("admin:memory_conversationbrief_changelist")

    def act(action: str, **more: str) -> str:
        form = {"action": action, "_selected_action": [str(remembered.pk)], **more}
        return staff.post(url, form, follow=True).content.decode()

    assert "Updates paused." in act("pause_updates")
    brief = ConversationBrief.objects.get(chat=remembered)
    assert (brief.paused_at is not None, brief.paused_by) == (True, User.objects.get(username="boss"))
    text = text_of(staff, "memory_conversationbrief_change", remembered.pk)
    assert 'value="resume_updates"' in text
    assert 'value="pause_updates"' not in text
    assert "Updates resumed." in act("resume_updates")
    assert "Restoring the last version undoes it" in act("clear_summary")
    assert ConversationBrief.objects.get(chat=remembered).version == 2
    assert "Summary cleared." in act("clear_summary", confirmed="yes")
    brief.refresh_from_db()
    assert (brief.version, brief.global_summary, brief.paused_at) == (3, "", None)
    assert "∅ cleared" in text_of(staff, "memory_conversationbrief_change", remembered.pk)
    assert "There is no summary to clear." in act("clear_summary", confirmed="yes")


def test_without_permission_nothing_is_offered_or_done(remembered: Chat, boss: User) -> None:
    client = member_of_staff("clerk", "view_chat", "view_conversationbrief", "view_content")
    forged = Client(enforce_csrf_checks=True)
    forged.force_login(boss)
    for name in ("conversations_chat", "memory_conversationbrief"):
        assert 'value="rebuild_memory"' not in text_of(client, f"{name}_change", remembered.pk)
        form = {"action": "rebuild_memory", "_selected_action": str(remembered.pk), "confirmed": "yes"}
        client.post(reverse(f"admin:{name}_changelist"), form)
        assert forged.post(reverse(f"admin:{name}_changelist"), form).status_code == 403
    assert ConversationBrief.objects.get(chat=remembered).requested == ""
    keeper = member_of_staff("keeper", "view_chat", "change_conversationbrief")
    answer = keeper.post(reverse("admin:conversations_chat_changelist"), form, follow=True)
    assert "Rebuild requested." in answer.content.decode()  # who may not read stays at the list

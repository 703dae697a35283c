"""The admin: what staff see of chats and memory, what they can do, and what they cannot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django_q.models import OrmQ

from chatmemory.apps import UNWANTED
from chatmemory.ids import new_id
from chatmemory.llm.protocol import Reply, Usage
from conversations import finishing, services
from conversations.importing import import_chat
from conversations.interchange import ImportedChat, ImportedMessage
from conversations.models import ActiveReply, Chat, IdempotencyKey, Message
from memory.models import ContextRecord, ConversationBrief, SummaryRevision

pytestmark = pytest.mark.django_db

EVIL = """<script>alert(1)</script><img src=x onerror=alert(2)>"'></pre><svg/onload=alert(3)>{{ 7|add:7 }}"""
PAGES = [
    "conversations_chat",
    "conversations_message",
    "conversations_activereply",
    "conversations_idempotencykey",
]
PAGES += ["memory_conversationbrief", "memory_summaryrevision", "memory_contextrecord"]


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss")


@pytest.fixture
def staff(boss: User) -> Client:
    client = Client()
    client.force_login(boss)
    return client


@pytest.fixture
def owner() -> User:
    return User.objects.create_user("olga")


def make_chat(owner: User, *, turns: int = 6, title: str = "A trip", said: str = "Hello") -> Chat:
    """A chat of `turns` finished turns."""
    messages = tuple(
        ImportedMessage(role=role, content=f"{said} {number}", metadata={"note": said})
        for number in range(turns)
        for role in ("user", "assistant")
    )
    return import_chat(
        owner, ImportedChat(title=title, instructions=said, metadata={"note": said}, messages=messages)
    )


def add_revision(chat: Chat, version: int, text: str, *, through: int) -> SummaryRevision:
    """A revision as a fold would have written it, and the brief that uses it."""
    revision = SummaryRevision.objects.create(
        chat=chat,
        version=version,
        parent=version - 1 or None,
        kind="fold",
        policy=chat.policy,
        global_summary=text,
        from_seq=through - 1,
        through_seq=through,
        turns=1,
        tokens_before=900,
        tokens_after=40,
        model=text[:100],
        retained={"kept": [text], "lost": [text], "share": 0.5},
    )
    ConversationBrief.objects.filter(chat=chat).update(
        version=version, head=version, global_summary=text, folded_through_seq=through, token_count=40
    )
    return revision


def say(chat: Chat, text: str, answer: str) -> Message:
    """A turn as the message door makes it, with its context record."""
    variant = services.default_variant()
    begun = services.begin_turn(
        chat.owner, services.TurnRequest(message=text, variant=variant), chat_id=chat.pk
    )
    assert isinstance(begun, services.Begun)
    ending = finishing.Ending.of(Reply("complete", None, Usage(100, 0, 20), "offline", ""))
    reply = finishing.finish(begun.pending, answer, ending)
    assert reply is not None
    return reply


def begin(chat: Chat, text: str, key: str) -> ActiveReply:
    """A turn whose reply is being written, asked for with an idempotency key."""
    request = services.TurnRequest(message=text, variant=services.default_variant())
    services.begin_turn(chat.owner, request, chat_id=chat.pk, key=key)
    ActiveReply.objects.filter(chat=chat).update(text=text)
    return ActiveReply.objects.get(chat=chat)


@pytest.fixture
def remembered(owner: User) -> Chat:
    """A chat with two revisions and a reply that has its record."""
    chat = make_chat(owner)
    add_revision(chat, 1, "The hall is booked.", through=2)
    add_revision(chat, 2, "The room is booked.", through=4)
    ConversationBrief.objects.filter(chat=chat).update(unfolded_turns=4)
    say(chat, "And where do we sleep?", "At the hostel.")
    return chat


def text_of(client: Client, page: str, *args: Any, **query: Any) -> str:
    response = client.get(reverse(f"admin:{page}", args=args), query)
    assert response.status_code == 200
    return response.content.decode()


# What is shown


def test_the_brief_shows_what_is_remembered_and_what_it_covers(staff: Client, remembered: Chat) -> None:
    html = text_of(staff, "memory_conversationbrief_change", remembered.pk)
    assert "The room is booked." in html
    assert "where each of 7 finished turns is now" in html
    assert re.search(r"<b>2</b>\s+Folded", html)
    assert re.search(r"<b>5</b>\s+In the prompt verbatim", html)
    for revision in SummaryRevision.objects.filter(chat=remembered):
        assert reverse("admin:memory_summaryrevision_change", args=[revision.pk]) in html


def test_the_brief_tells_its_troubles(staff: Client, remembered: Chat) -> None:
    later = timezone.now()
    ConversationBrief.objects.filter(chat=remembered).update(
        last_error={"code": "upstream_timeout", "attempt": 3},
        attempts=3,
        next_attempt_at=later,
        degraded=True,
        lease_owner="host:1:ab",
        lease_expires_at=later,
    )
    html = text_of(staff, "memory_conversationbrief_change", remembered.pk)
    for told in ("upstream_timeout", "built-in summarizer", "host:1:ab"):
        assert told in html


def test_a_revision_shows_its_changes_and_leads_back(staff: Client, remembered: Chat) -> None:
    newest = SummaryRevision.objects.get(chat=remembered, version=2)
    html = text_of(staff, "memory_summaryrevision_change", newest.pk)
    assert "The <del>hall</del><ins>room</ins> is booked." in html
    span = re.search(r'href="([^"]+)">1 turns, messages 3–4', html)
    assert span is not None
    listed = staff.get(span[1].replace("&amp;", "&"))
    assert [message.seq for message in listed.context["cl"].result_list] == [3, 4]


def test_a_record_shows_what_was_sent_and_proves_it(staff: Client, remembered: Chat) -> None:
    record = ContextRecord.objects.get(reply__chat=remembered)
    html = text_of(staff, "memory_contextrecord_change", record.pk)
    assert "the hash is that of the prompt that was sent" in html
    assert "And where do we sleep?" in html
    assert "The room is booked." in html


def test_a_record_says_so_when_its_prompt_is_not_what_was_sent(staff: Client, remembered: Chat) -> None:
    record = ContextRecord.objects.get(reply__chat=remembered)
    Message.objects.filter(replies=record.reply).update(content="Something else")
    html = text_of(staff, "memory_contextrecord_change", record.pk)
    assert "cannot be rebuilt" in html
    assert "Something else" not in html


def test_a_chat_leads_to_its_memory(staff: Client, remembered: Chat) -> None:
    html = text_of(staff, "conversations_chat_change", remembered.pk)
    assert reverse("admin:memory_conversationbrief_change", args=[remembered.pk]) in html
    for page in ("conversations_message", "memory_summaryrevision"):
        assert f"{reverse(f'admin:{page}_changelist')}?chat__id__exact={remembered.pk}" in html
    assert "in 14 messages; 100 sent to models, 20 written by them" in html


def test_a_message_leads_to_what_the_model_was_sent(staff: Client, remembered: Chat) -> None:
    reply = Message.objects.get(chat=remembered, seq=14)
    html = text_of(staff, "conversations_message_change", reply.pk)
    assert reverse("admin:memory_contextrecord_change", args=[reply.pk]) in html


def test_a_chat_without_messages_has_a_page(staff: Client, owner: User) -> None:
    chat = services.create_chat(owner)
    assert "0 messages" in text_of(staff, "conversations_chat_change", chat.pk)
    assert str(chat.pk) in text_of(staff, "conversations_chat_changelist")


# Text is text


@pytest.fixture
def evil(owner: User) -> Chat:
    """A chat in which everything that can be said says something evil, with a row on every page."""
    chat = make_chat(owner, title=EVIL, said=EVIL)
    add_revision(chat, 1, EVIL, through=2)
    add_revision(chat, 2, EVIL + EVIL, through=4)
    ConversationBrief.objects.filter(chat=chat).update(
        last_error={"message": EVIL}, state={"note": EVIL}, rebuild={"note": EVIL}, lease_owner=EVIL[:100]
    )
    Message.objects.filter(chat=chat).update(
        line=EVIL,
        outline=EVIL,
        model=EVIL,
        model_variant=EVIL[:64],
        response_id=EVIL,
        error={"message": EVIL},
    )
    say(chat, EVIL, EVIL)
    begin(chat, EVIL, EVIL)
    return chat


def every_page(client: Client) -> Iterator[tuple[str, str]]:
    """Each list, and the page of each row."""
    for page in PAGES:
        model = next(
            model
            for model in admin.site._registry
            if f"{model._meta.app_label}_{model._meta.model_name}" == page
        )
        yield page, text_of(client, f"{page}_changelist")
        for row in model._default_manager.all():
            yield f"{page} {row.pk}", text_of(client, f"{page}_change", row.pk)


def test_no_page_renders_what_people_said(staff: Client, evil: Chat) -> None:
    pages = dict(every_page(staff))
    assert len(pages) > len(PAGES) * 2
    for page, html in pages.items():
        for tag in ("<script>", "<img src=x", "<svg/onload", "alert(3)&gt;14"):
            assert tag not in html, page
    assert escape(EVIL) in pages[f"memory_conversationbrief {evil.pk}"]


def test_no_page_needs_an_inline_script_or_style(staff: Client, remembered: Chat) -> None:
    for page, html in every_page(staff):
        assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>[^<]*\S", html), page
        assert not re.search(r"<[^>]+\s(style|on\w+)=", html), page


def test_lists_show_length_and_not_text(staff: Client, owner: User) -> None:
    make_chat(owner, said="the secret of the cellar")
    for page in ("conversations_message", "memory_conversationbrief", "conversations_chat"):
        assert "secret of the cellar" not in text_of(staff, f"{page}_changelist")


# What it costs


def fill(owner: User, chats: int) -> None:
    for number in range(chats):
        chat = make_chat(owner, turns=2, title=f"Chat {number}")
        add_revision(chat, 1, "Said hello.", through=2)
        say(chat, "More?", "More.")
        begin(chat, "And?", f"key {number}")


def queries(client: Client, page: str, **query: Any) -> list[str]:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        text_of(client, f"{page}_changelist", **query)
    return [found["sql"] for found in captured.captured_queries]


@pytest.mark.parametrize("page", PAGES)
def test_a_list_costs_the_same_queries_for_50_rows_as_for_5(
    page: str, staff: Client, owner: User, django_assert_max_num_queries: Any
) -> None:
    fill(owner, 5)
    few = queries(staff, page)
    fill(User.objects.create_user("other"), 45)
    assert len(queries(staff, page)) == len(few)
    with django_assert_max_num_queries(6):
        text_of(staff, f"{page}_changelist")


def test_the_page_of_a_brief_costs_the_same_however_long_the_chat(staff: Client, owner: User) -> None:
    def cost(turns: int, revisions: int) -> int:
        chat = make_chat(owner, turns=turns)
        for version in range(1, revisions + 1):
            add_revision(chat, version, "Said hello.", through=2)
        with CaptureQueriesContext(connection) as captured:
            text_of(staff, "memory_conversationbrief_change", chat.pk)
        return len(captured)

    assert cost(50, 50) == cost(5, 5) <= 10


def test_no_list_counts_or_reads_the_table_of_messages(staff: Client, owner: User) -> None:
    fill(owner, 2)
    for page in ("conversations_message", "memory_contextrecord"):
        for sql in queries(staff, page):
            assert "COUNT(*)" not in sql or "LIMIT 5000" in sql
            assert not re.search(r'SELECT[^)]*"conversations_message"\."content"[,\s]', sql)


# Finding


@pytest.mark.parametrize(
    "page",
    ["conversations_chat", "memory_conversationbrief", "conversations_message", "memory_summaryrevision"],
)
@pytest.mark.parametrize("term", [lambda chat: str(chat.pk), lambda chat: "OLGA", lambda chat: "journey to"])
def test_it_finds_by_id_owner_and_title(
    page: str, term: Callable[[Chat], str], staff: Client, owner: User
) -> None:
    mine = make_chat(owner, title="A journey to Ljubljana")
    other = make_chat(User.objects.create_user("rosa"), title="Tea")
    for chat in (mine, other):
        add_revision(chat, 1, "Said hello.", through=2)
    response = staff.get(reverse(f"admin:{page}_changelist"), {"q": term(mine)})
    found = {getattr(row, "chat_id", row.pk) for row in response.context["cl"].result_list}
    assert found == {mine.pk}


def test_it_finds_a_message_and_its_record_by_id(staff: Client, remembered: Chat) -> None:
    reply = Message.objects.get(chat=remembered, seq=14)
    for page in ("conversations_message", "memory_contextrecord"):
        response = staff.get(reverse(f"admin:{page}_changelist"), {"q": str(reply.pk)})
        assert [row.pk for row in response.context["cl"].result_list] == [reply.pk]


def test_it_does_not_search_what_was_said(staff: Client, owner: User) -> None:
    make_chat(owner, said="cellar")
    for page in PAGES:
        response = staff.get(reverse(f"admin:{page}_changelist"), {"q": "cellar"})
        assert not response.context["cl"].result_list


def test_a_list_of_one_chat_is_in_its_order_and_can_be_filtered(
    staff: Client, remembered: Chat, owner: User
) -> None:
    make_chat(owner)
    query = {"chat__id__exact": str(remembered.pk), "role__exact": "user"}
    response = staff.get(reverse("admin:conversations_message_changelist"), query)
    assert [message.seq for message in response.context["cl"].result_list] == [1, 3, 5, 7, 9, 11, 13]


@pytest.mark.parametrize(
    "query", [{"chat__id__exact": "nonsense"}, {"q": "'\"%_\\"}, {"q": str(uuid4())}, {"p": "99"}]
)
def test_a_nonsense_query_is_no_error(query: dict[str, str], staff: Client, remembered: Chat) -> None:
    for page in PAGES:
        assert staff.get(reverse(f"admin:{page}_changelist"), query).status_code in (200, 302)


# What nobody can do


@pytest.mark.parametrize("page", PAGES)
def test_history_cannot_be_written_by_hand(page: str, staff: Client, remembered: Chat) -> None:
    begin(remembered, "And then?", "a key")
    model = next(
        model for model in admin.site._registry if f"{model._meta.app_label}_{model._meta.model_name}" == page
    )
    row = model._default_manager.all()[0]
    assert staff.get(reverse(f"admin:{page}_add")).status_code == 403
    assert staff.post(reverse(f"admin:{page}_change", args=[row.pk]), {"title": "x"}).status_code == 403
    if page != "conversations_chat":
        assert staff.post(reverse(f"admin:{page}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
        form = {"action": "delete_selected", "_selected_action": str(row.pk), "post": "yes"}
        staff.post(reverse(f"admin:{page}_changelist"), form)
    assert model._default_manager.filter(pk=row.pk).exists()


def test_the_pages_that_run_code_or_mint_tokens_are_gone(staff: Client) -> None:
    registered = {model._meta.label for model in admin.site._registry}
    assert not registered & set(UNWANTED)
    for path in ("django_q/schedule/add/", "django_q/ormq/", "django_q/failure/", "knox/authtoken/add/"):
        assert staff.get(f"/admin/{path}").status_code == 404


@pytest.mark.parametrize("page", PAGES)
def test_strangers_and_staff_without_permission_see_nothing(page: str, remembered: Chat) -> None:
    client = Client()
    assert client.get(reverse(f"admin:{page}_changelist")).status_code == 302
    client.force_login(User.objects.create_user("clerk", is_staff=True))
    assert client.get(reverse(f"admin:{page}_changelist")).status_code == 403
    assert client.get(reverse(f"admin:{page}_change", args=[new_id()])).status_code in (302, 403)


# Deleting a chat


def gone(chat: Chat) -> bool:
    of_chat = [Message, SummaryRevision, ConversationBrief, ActiveReply, IdempotencyKey]
    rows = [model._default_manager.filter(chat_id=chat.pk) for model in of_chat]
    rows += [Chat.objects.filter(pk=chat.pk), ContextRecord.objects.filter(reply__chat_id=chat.pk)]
    return not any(found.exists() for found in rows)


def test_a_chat_is_deleted_with_all_that_stems_from_it(staff: Client, remembered: Chat, owner: User) -> None:
    other = make_chat(owner)
    page = text_of(staff, "conversations_chat_delete", remembered.pk)
    assert "Messages: 14" in page
    staff.post(reverse("admin:conversations_chat_delete", args=[remembered.pk]), {"post": "yes"})
    assert gone(remembered)
    assert Message.objects.filter(chat=other).count() == 12


def test_selected_chats_are_deleted_through_the_service(
    staff: Client, remembered: Chat, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, kept = make_chat(owner), make_chat(owner)
    deleted: list[Any] = []
    real = services.delete_chat

    def delete_chat(chat: Chat) -> None:
        deleted.append(chat.pk)
        real(chat)

    monkeypatch.setattr(services, "delete_chat", delete_chat)
    form = {"action": "delete_selected", "_selected_action": [str(remembered.pk), str(other.pk)]}
    assert b"Messages: 26" in staff.post(reverse("admin:conversations_chat_changelist"), form).content
    staff.post(reverse("admin:conversations_chat_changelist"), {**form, "post": "yes"})
    assert set(deleted) == {remembered.pk, other.pk}
    assert gone(remembered)
    assert not gone(kept)


def test_a_user_who_owns_chats_is_not_deleted_in_passing(
    staff: Client, remembered: Chat, owner: User
) -> None:
    other = User.objects.create_user("rosa")
    url = reverse("admin:auth_user_delete", args=[owner.pk])
    assert "1 chats of olga: delete them first" in text_of(staff, "auth_user_delete", owner.pk)
    assert staff.post(url, {"post": "yes"}).status_code in (200, 403)
    form = {"action": "delete_selected", "_selected_action": [owner.pk, other.pk], "post": "yes"}
    staff.post(reverse("admin:auth_user_changelist"), form)
    assert User.objects.filter(pk__in=[owner.pk, other.pk]).count() == 2
    staff.post(reverse("admin:auth_user_delete", args=[other.pk]), {"post": "yes"})
    assert not User.objects.filter(pk=other.pk).exists()


def test_deleting_needs_its_permission(remembered: Chat) -> None:
    client = Client()
    client.force_login(clerk("view_chat"))
    url = reverse("admin:conversations_chat_delete", args=[remembered.pk])
    assert client.post(url, {"post": "yes"}).status_code == 403
    assert not gone(remembered)


# Resummarizing


def clerk(*permissions: str) -> User:
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


@pytest.mark.parametrize("page", ["conversations_chat", "memory_conversationbrief"])
@pytest.mark.parametrize(("action", "requested"), [("resummarize", "update"), ("rebuild", "rebuild")])
def test_memory_is_made_anew_after_a_confirmation(
    page: str, action: str, requested: str, staff: Client, owner: User
) -> None:
    chats = [make_chat(owner) for _ in range(3)]
    form: dict[str, Any] = {"action": action, "_selected_action": [str(chat.pk) for chat in chats[:2]]}
    url = reverse(f"admin:{page}_changelist")

    asked = staff.post(url, form).content.decode()
    assert "2 chats" in asked
    assert not ConversationBrief.objects.exclude(requested="").exists()
    assert not OrmQ.objects.exists()

    answered = staff.post(url, {**form, "confirmed": "yes"}, follow=True).content.decode()
    assert "2 chats are being summarized in the background" in answered
    wanted = dict(ConversationBrief.objects.values_list("chat_id", "requested"))
    assert [wanted[chat.pk] for chat in chats] == [requested, requested, ""]
    assert OrmQ.objects.count() == 2


def test_all_chats_of_a_search_can_be_chosen(staff: Client, owner: User) -> None:
    for number in range(3):
        make_chat(owner, title=f"Trip {number}")
    other = make_chat(owner, title="Tea")
    url = f"{reverse('admin:conversations_chat_changelist')}?q=trip"
    form = {"action": "rebuild", "_selected_action": str(other.pk), "select_across": "1", "index": "0"}
    asked = staff.post(url, form).content.decode()
    assert "3 chats" in asked
    assert 'name="select_across" value="1"' in asked
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([\w-]+)">', asked)
    staff.post(url, dict(hidden))
    assert ConversationBrief.objects.filter(requested="rebuild").count() == 3
    assert ConversationBrief.objects.get(chat=other).requested == ""


def test_the_pages_of_chat_and_brief_offer_both_actions(staff: Client, remembered: Chat) -> None:
    for page in ("conversations_chat", "memory_conversationbrief"):
        html = text_of(staff, f"{page}_change", remembered.pk)
        assert 'name="action" value="resummarize"' in html
        assert f'name="_selected_action" value="{remembered.pk}"' in html


def test_without_permission_nothing_is_offered_or_done(remembered: Chat) -> None:
    client = Client()
    client.force_login(clerk("view_chat", "view_conversationbrief"))
    for page in ("conversations_chat", "memory_conversationbrief"):
        assert 'value="rebuild"' not in text_of(client, f"{page}_change", remembered.pk)
        form = {"action": "rebuild", "_selected_action": str(remembered.pk), "confirmed": "yes"}
        client.post(reverse(f"admin:{page}_changelist"), form)
    assert ConversationBrief.objects.get(chat=remembered).requested == ""


def test_a_request_from_another_site_is_refused(boss: User, remembered: Chat) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(boss)
    form = {"action": "rebuild", "_selected_action": str(remembered.pk), "confirmed": "yes"}
    assert client.post(reverse("admin:conversations_chat_changelist"), form).status_code == 403
    assert ConversationBrief.objects.get(chat=remembered).requested == ""

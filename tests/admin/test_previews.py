"""What the model saw for a reply, and what it would see now: sections, what is missing and why, and permissions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from conversations.models import Chat, ContentView, Message
from memory import services
from memory.models import ContextRecord, ContextText, ConversationBrief, SummaryRevision
from memory.policies import POLICIES
from tests.admin.rows import add_revision, make_chat, member_of_staff, say, text_of
from tests.security.access.traces import everything
from tests.support import factories

pytestmark = pytest.mark.django_db

CANARY = "the heron in the reeds"
VIEWS = ("view_chat", "view_message", "view_conversationbrief", "view_summaryrevision", "view_contextrecord")
EVIL = """<script>alert(1)</script>"'></pre><img src=x onerror=alert(2)>"""


def now(client: Client, chat: Chat, **form: Any) -> Any:
    """Request the preview of the next prompt with `form`."""
    url = reverse("admin:conversations_chat_context", args=[chat.pk])
    given = {"question": "", "policy": chat.policy, "budget": "", **form}
    return client.post(url, given) if form else client.get(url)


def errors(answer: Any) -> dict[str, list[str]]:
    return {name: list(found) for name, found in answer.context["form"].errors.items()}


# The preview of the next prompt


def test_it_shows_the_prompt_that_a_question_would_make(staff: Client, remembered: Chat) -> None:
    answer = now(staff, remembered, question="And where do we sleep?")
    html = answer.content.decode()
    expected = services.preview(remembered, "And where do we sleep?")
    assert [section.text for section in answer.context["sections"]] == [one.text for one in expected.sections]
    assert answer.context["budget"].tokens == expected.tokens
    assert "The room is booked." in html
    assert "Messages 1 to 4 are covered by the summary, version 2." in html
    assert "No model is called" in html


def test_it_shows_the_prompt_without_a_question_at_first(staff: Client, remembered: Chat) -> None:
    answer = now(staff, remembered)
    assert [section.kind for section in answer.context["sections"]] == ["instructions", "summary", "window"]


def test_nothing_is_kept_and_nothing_is_sent(staff: Client, remembered: Chat) -> None:
    before = everything("conversations.ContentView")
    for policy in POLICIES:
        assert now(staff, remembered, question="Why?", policy=policy, budget="200").status_code == 200
    assert everything("conversations.ContentView") == before


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"chunked"}))
def test_another_policy_begins_without_memory_and_says_so(
    staff: Client, remembered: Chat, policy: str
) -> None:
    html = now(staff, remembered, policy=policy).content.decode()
    assert "There is no memory under another policy" in html
    assert f"manage.py replay --chat {remembered.pk}" in html
    assert "The room is booked." not in html
    assert "Under another policy" not in now(staff, remembered, policy="chunked").content.decode()


def test_a_small_budget_is_kept_and_what_it_costs_is_told(staff: Client, owner: User) -> None:
    chat = factories.make_chat(owner)
    factories.add_turns(chat, [(f"Question {n} " + "so " * 100, "Well, " * 100) for n in range(60)])
    answer = now(staff, chat, budget="400")
    assert answer.context["budget"].tokens <= 400
    said = " ".join(text for _, found in answer.context["told"] for text, _ in found)
    assert "did not fit as one-line summaries and are only counted." in said
    looks = re.findall(r'href="([^"]+)">View message', answer.content.decode())
    assert looks
    for url in looks:
        assert staff.get(url.split("#")[0]).status_code == 200


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"budget": "-1"}, "budget"),
        ({"budget": "1000001"}, "budget"),
        ({"budget": "many"}, "budget"),
        ({"policy": "none"}, "policy"),
        ({"policy": ""}, "policy"),
        ({"question": "a" * 200_001}, "question"),
        ({"question": "a\0b"}, "question"),
    ],
)
def test_what_the_api_would_refuse_is_refused_in_a_sentence(
    staff: Client, remembered: Chat, form: dict[str, str], field: str
) -> None:
    answer = now(staff, remembered, **form)
    assert answer.status_code == 200
    assert list(errors(answer)) == [field]
    (sentence,) = errors(answer)[field]
    assert sentence.endswith(".")
    assert "context" not in answer.context
    assert 'class="errorlist"' in answer.content.decode()


@pytest.mark.parametrize(
    "form", [{"budget": "0"}, {"question": " "}, {"question": EVIL}, {"question": "a" * 150_000}]
)
def test_what_the_api_would_take_is_taken_and_shown_as_text(
    staff: Client, remembered: Chat, form: dict[str, str]
) -> None:
    answer = now(staff, remembered, **form)
    assert errors(answer) == {}
    assert "<script>alert" not in answer.content.decode()
    assert "<img src=x" not in answer.content.decode()


def test_a_chat_without_anything_has_a_prompt_too(staff: Client, owner: User) -> None:
    bare = Chat.objects.create(owner=owner, policy="chunked")
    answer = now(staff, bare, question="Hello?")
    assert [section.kind for section in answer.context["sections"]] == ["question"]
    assert not ConversationBrief.objects.exists()


# Permissions


def test_the_form_is_guarded_against_other_sites(boss: User, remembered: Chat) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(boss)
    assert now(client, remembered, question="Why?").status_code == 403


def test_only_who_sees_the_chat_and_may_read_content_may_look(remembered: Chat) -> None:
    assert now(Client(), remembered).status_code == 302
    for name, permissions, status in (
        ("clerk", VIEWS, 403),
        ("blind", ("view_content",), 403),
        ("reader", (*VIEWS, "view_content"), 200),
    ):
        client = member_of_staff(name, *permissions)
        assert now(client, remembered).status_code == status, name
        assert now(client, remembered, question="Why?").status_code == status, name
    assert ContentView.objects.filter(viewer_name="reader", object_id=str(remembered.pk)).count() == 2
    assert not ContentView.objects.exclude(viewer_name="reader").exists()


def test_a_chat_that_is_not_there_is_not_found(staff: Client, remembered: Chat) -> None:
    remembered.pk = "01a1ff7d-0000-7000-8000-000000000000"
    assert now(staff, remembered).status_code == 404


# What the model saw


def record_page(client: Client, reply: Message) -> Any:
    return client.get(reverse("admin:memory_contextrecord_change", args=[reply.pk]))


def test_sections_lead_to_their_messages_in_the_chat(staff: Client, remembered: Chat) -> None:
    reply = Message.objects.get(chat=remembered, seq=14)
    html = record_page(staff, reply).content.decode()
    chat = reverse("admin:conversations_chat_change", args=[remembered.pk])
    assert f'<a href="{chat}?at=5#m5">5–12</a>' in html  # the turns shown verbatim
    assert "Messages 1 to 4 are covered by the summary, version 2." in html


def test_the_prompt_is_there_by_role_as_it_was_sent(staff: Client, remembered: Chat) -> None:
    reply = Message.objects.get(chat=remembered, seq=14)
    prompt = record_page(staff, reply).context["prompt"]
    past = services.past_context(reply)
    assert past is not None
    assert [one["content"] for one in prompt[1:]] == [one.content for one in past[0].prompt.messages]
    assert prompt[0]["role"] == "system"


def test_it_says_what_became_of_the_revision(staff: Client, remembered: Chat) -> None:
    reply = Message.objects.get(chat=remembered, seq=14)
    assert "version 2</a>, still in use" in record_page(staff, reply).content.decode()
    add_revision(remembered, 3, "All is booked.", through=6)
    assert "version 2</a>, since replaced" in record_page(staff, reply).content.decode()
    SummaryRevision.objects.filter(chat=remembered, version=2).update(forgotten_at=reply.created_at)
    assert "version 2</a>, its texts were deleted" in record_page(staff, reply).content.decode()
    SummaryRevision.objects.filter(chat=remembered, version=2).delete()
    assert "version 2, gone" in record_page(staff, reply).content.decode()


def test_it_says_what_of_the_tokens_came_from_a_cache(staff: Client, remembered: Chat) -> None:
    reply = Message.objects.get(chat=remembered, seq=14)
    Message.objects.filter(pk=reply.pk).update(input_tokens=2000, cached_tokens=1500, output_tokens=20)
    assert "1,500 (75%)" in record_page(staff, reply).content.decode()
    Message.objects.filter(pk=reply.pk).update(input_tokens=None, cached_tokens=None)
    assert "not reported by the model" in record_page(staff, reply).content.decode()


def test_one_goes_from_reply_to_reply(staff: Client, remembered: Chat) -> None:
    first = Message.objects.get(chat=remembered, seq=14)
    second = say(remembered, "And then?", "We eat.")
    context = record_page(staff, first).context
    assert (context["previous"], context["next"]) == (None, second)
    assert record_page(staff, second).context["previous"] == first


def test_a_prompt_that_is_not_there_any_more_shows_no_text(staff: Client, owner: User) -> None:
    chat = make_chat(owner, said=CANARY)
    reply = say(chat, f"Where is {CANARY}?", "There.", instructions=CANARY)
    ContextText.objects.filter(chat=chat).delete()
    html = record_page(staff, reply).content.decode()
    assert "no longer be rebuilt" in html
    assert "The prompt as messages" not in html
    assert "Recent messages (full text)" in html


def test_without_the_permission_sections_have_no_text(remembered: Chat) -> None:
    reply = say(remembered, f"Where is {CANARY}?", "There.", instructions=CANARY)
    clerk = member_of_staff("clerk", *VIEWS)
    html = record_page(clerk, reply).content.decode()
    assert CANARY not in html
    assert "The prompt as messages" not in html
    assert "Recent messages (full text)" in html
    assert "conversations.view_content" in html
    assert not ContentView.objects.exists()


def test_the_page_of_a_record_costs_the_same_however_long_the_chat(staff: Client, owner: User) -> None:
    def cost(turns: int) -> int:
        reply = say(make_chat(owner, turns=turns), "And?", "So.")
        with CaptureQueriesContext(connection) as captured:
            assert record_page(staff, reply).status_code == 200
        return len(captured)

    cost(2)
    assert cost(10) == cost(300) <= 20


def test_every_record_has_a_page_that_opens(staff: Client, owner: User) -> None:
    for policy in POLICIES:
        chat = make_chat(owner)
        Chat.objects.filter(pk=chat.pk).update(policy=policy)
        ConversationBrief.objects.filter(chat=chat).update(policy=policy)
        chat.refresh_from_db()
        say(chat, "And?", "So.")
    assert ContextRecord.objects.count() == len(POLICIES)
    for record in ContextRecord.objects.all():
        assert "Verified: identical" in text_of(staff, "memory_contextrecord_change", record.pk)

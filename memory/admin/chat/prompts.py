"""A prompt as shown to staff: its budget as a bar, its sections with links to their messages, and what is missing.

It is used for prompts that were sent and for previews. A preview takes a question, a policy and a budget, and shows
the context that would be built. Nothing is sent or stored. The page is for users who may see the chat and read its
content; each view is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from conversations.admin.access import may_see
from conversations.admin.audit_log import record
from conversations.admin.html import admin_url, chat_trail
from conversations.models import Chat, Message
from memory import services
from memory.api.serializers import ContextIn
from memory.context.assemble import prompt_messages
from memory.context.render import Section
from memory.explain.coverage import budget_of
from memory.explain.reasons import Explanation, Topic, explain, name_of
from memory.models import ConversationBrief
from memory.policies import POLICIES, policy_name
from memory.recall.analysis.highlights import highlights
from memory.recall.analysis.terms import terms

_FIELDS = {"message": "question", "policy": "policy", "budget": "budget"}
"""The API's names of the form's fields."""


class PreviewForm(forms.Form):
    """The parameters of a preview, validated as the API does."""

    question = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField"}),
        label="Question",
    )
    policy = forms.ChoiceField(
        choices=lambda: [(name, policy_name(name)) for name in POLICIES], label="Policy"
    )
    budget = forms.IntegerField(required=False, label="Tokens of memory")

    def clean(self) -> dict[str, Any]:
        given = {name: self.cleaned_data.get(field) for name, field in _FIELDS.items()}
        body = ContextIn(data={name: value for name, value in given.items() if value not in (None, "")})
        if not body.is_valid():
            for name, errors in body.errors.items():
                self.add_error(_FIELDS.get(name), [str(error) for error in errors])
        return self.cleaned_data


def preview_urls(chats: admin.ModelAdmin[Any]) -> list[URLPattern]:
    """The URL of the page, for the admin of chats."""

    def view(request: HttpRequest, chat_id: UUID) -> HttpResponse:
        return preview_view(chats, request, chat_id)

    return [
        path("<uuid:chat_id>/context/", chats.admin_site.admin_view(view), name="conversations_chat_context")
    ]


def preview_view(chats: admin.ModelAdmin[Any], request: HttpRequest, chat_id: UUID) -> HttpResponse:
    """The page of one chat: the form and its result; at first, the prompt that would be sent without a question."""
    if not (chats.has_view_permission(request) and may_see(request)):
        raise PermissionDenied
    chat = get_object_or_404(Chat, pk=chat_id)
    brief = ConversationBrief.objects.filter(chat=chat).only("policy", "head", "folded_through_seq").first()
    in_use = brief.policy if brief else chat.policy
    initial = {"policy": in_use}
    form = (
        PreviewForm(request.POST, initial=initial)
        if request.method == "POST"
        else PreviewForm(initial=initial)
    )
    chosen = _chosen(form, in_use)
    page = {
        **chats.admin_site.each_context(request),
        "title": "Preview of the next prompt",
        "opts": chats.opts,
        "media": chats.media,
        "chat": chat,
        "trail": chat_trail(chat, True, ("Preview of the next prompt", "")),
        "form": form,
        "in_use": policy_name(in_use),
        "is_other": chosen is not None and chosen["policy"] != in_use,
        **({} if chosen is None else _shown(chat, brief, chosen)),
    }
    record(request, "conversations_chat", [(chat, chat.pk)])
    return TemplateResponse(request, "admin/memory/preview.html", page)


def _chosen(form: PreviewForm, in_use: str) -> dict[str, Any] | None:
    """The parameters of the preview; None if they are invalid."""
    if not form.is_bound:
        return {"question": "", "policy": in_use, "budget": None}
    return form.cleaned_data if form.is_valid() else None


def _shown(chat: Chat, brief: ConversationBrief | None, chosen: dict[str, Any]) -> dict[str, Any]:
    """The preview, as `admin/memory/shares.html` and `sections.html` expect it."""
    context = services.preview(chat, chosen["question"], policy=chosen["policy"], budget=chosen["budget"])
    sections = shown_sections(chat.pk, context.sections)
    known = {}
    if brief is not None and brief.policy == chosen["policy"]:
        known = {"head": brief.head, "folded_through": brief.folded_through_seq}
    return {
        "context": context,
        "sections": sections,
        "budget": budget_of([(section.kind, section.tokens) for section in sections], context.budget),
        "told": sentences(chat.pk, explain(context.plan, **known)),
        "prompt": prompt_messages(context.prompt),
    }


@dataclass(frozen=True, slots=True)
class ShownSection:
    """A section, its text if it has any to show, and links to its messages, one for each run of seqs."""

    kind: str
    name: str
    tokens: int
    clipped: bool
    text: str
    messages: list[SafeString]
    pieces: tuple[tuple[str, bool], ...] = ()
    """The text of a recalled section, cut where words of the question begin and end."""


def timeline_link(chat_id: UUID, seq: int, text: str) -> SafeString:
    """A link to a message's place in its chat's timeline."""
    url = admin_url("conversations_chat", "change", chat_id, at=seq)
    return format_html('<a href="{}#m{}">{}</a>', url, seq, text)


def shown_sections(chat_id: UUID, sections: Iterable[Section]) -> list[ShownSection]:
    """`sections` with the current seqs of their messages."""
    sections = list(sections)
    asked = {term for section in sections if section.kind == "question" for term in terms(section.text)}
    wanted = {message_id for section in sections for message_id in section.message_ids}
    # By primary key only: with the chat in the filter, SQLite would read all its messages.
    seqs = dict(Message.objects.filter(pk__in=wanted).values_list("pk", "seq"))
    return [
        ShownSection(
            section.kind,
            name_of(section.kind),
            section.tokens,
            section.clipped,
            section.text,
            [
                timeline_link(chat_id, first, str(first) if first == last else f"{first}–{last}")
                for first, last in runs([seqs[one] for one in section.message_ids if one in seqs])
            ],
            marked(section.text, asked) if section.kind == "recall" else (),
        )
        for section in sections
    ]


def marked(text: str, wanted: set[str]) -> tuple[tuple[str, bool], ...]:
    """`text` cut where words with these terms begin and end; each piece with whether it is such a word."""
    pieces, done = [], 0
    for start, end in highlights(text, wanted):
        pieces += [(text[done:start], False), (text[start:end], True)]
        done = end
    return tuple(piece for piece in [*pieces, (text[done:], False)] if piece[0])


def runs(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """The seqs as sorted runs of consecutive numbers, each as its first and last."""
    ordered = sorted(set(seqs))
    if not ordered:
        return []
    breaks = [(a, b) for a, b in pairwise(ordered) if b > a + 1]
    return list(
        zip([ordered[0], *(b for _, b in breaks)], [*(a for a, _ in breaks), ordered[-1]], strict=True)
    )


TOPICS: dict[Topic, str] = {
    "left out": "Left out or shortened",
    "brought back": "Brought back by recall",
    "there": "In the prompt",
}


def sentences(
    chat_id: UUID, told: Sequence[Explanation]
) -> list[tuple[str, list[tuple[str, SafeString | str]]]]:
    """Group sentences by topic, each with a link to the message it refers to."""
    return [
        (heading, [_sentence(chat_id, one) for one in told if one.topic == topic])
        for topic, heading in TOPICS.items()
        if any(one.topic == topic for one in told)
    ]


def _sentence(chat_id: UUID, one: Explanation) -> tuple[str, SafeString | str]:
    return one.text, timeline_link(chat_id, one.seq, f"View message {one.seq}") if one.seq else ""

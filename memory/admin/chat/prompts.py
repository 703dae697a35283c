"""A prompt as staff look at it: its budget as a bar, its sections with the way to their messages, and what is missing.

The same for what was sent and for what would be. The preview: a question, a policy and a budget in, the context that
would be built out. Nothing is sent and nothing is kept. It is for those who may see the chat and read what was said in
it; each look is recorded.
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
from memory.admin.states import policy_name
from memory.api.serializers import ContextIn
from memory.context.assemble import prompt_messages
from memory.context.render import Section
from memory.explain.coverage import budget_of
from memory.explain.matches import RecallMatch, matches_of
from memory.explain.reasons import Explanation, Topic, explain, name_of
from memory.models import ConversationBrief
from memory.policies import POLICIES
from memory.recall.analysis.highlights import highlights
from memory.recall.analysis.terms import terms

_FIELDS = {"message": "question", "policy": "policy", "budget": "budget"}
"""The API's names of what the form asks for."""


class PreviewForm(forms.Form):
    """What to show. Its rules are the API's."""

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
    """The address of the page, for the admin of chats."""

    def view(request: HttpRequest, chat_id: UUID) -> HttpResponse:
        return preview_view(chats, request, chat_id)

    return [
        path("<uuid:chat_id>/context/", chats.admin_site.admin_view(view), name="conversations_chat_context")
    ]


def preview_view(chats: admin.ModelAdmin[Any], request: HttpRequest, chat_id: UUID) -> HttpResponse:
    """The page of one chat: the form, and what it asked for; at first, what would be sent without a question."""
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
        "compare_url": admin_url("memory_comparison", "compare", chat.pk),
        **({} if chosen is None else _shown(chat, brief, chosen)),
    }
    record(request, "conversations_chat", [(chat, chat.pk)])
    return TemplateResponse(request, "admin/memory/preview.html", page)


def _chosen(form: PreviewForm, in_use: str) -> dict[str, Any] | None:
    """What is to be shown; None where it cannot be."""
    if not form.is_bound:
        return {"question": "", "policy": in_use, "budget": None}
    return form.cleaned_data if form.is_valid() else None


def _shown(chat: Chat, brief: ConversationBrief | None, chosen: dict[str, Any]) -> dict[str, Any]:
    """The context that is asked for, as `admin/memory/shares.html` and `sections.html` want it."""
    context = services.preview(chat, chosen["question"], policy=chosen["policy"], budget=chosen["budget"])
    sections = shown_sections(chat.pk, context.sections)
    known = {}
    if brief is not None and brief.policy == chosen["policy"]:
        known = {"head": brief.head, "folded_through": brief.folded_through_seq}
    matches = matches_of(chat, chosen["question"], chat.last_seq + 1, context.plan)
    return {
        "matches": placed(chat.pk, matches),
        "context": context,
        "sections": sections,
        "budget": budget_of([(section.kind, section.tokens) for section in sections], context.budget),
        "told": sentences(chat.pk, explain(context.plan, **known)),
        "prompt": prompt_messages(context.prompt),
    }


@dataclass(frozen=True, slots=True)
class ShownSection:
    """A section with its text, where there is one to show, and links to its messages, a run of seqs each."""

    kind: str
    name: str
    tokens: int
    clipped: bool
    text: str
    messages: list[SafeString]
    pieces: tuple[tuple[str, bool], ...] = ()
    """Of what was recalled: its text, cut where words of the question begin and end."""


def at(chat_id: UUID, seq: int, text: str) -> SafeString:
    """A link to the place of a message in its chat's timeline."""
    url = admin_url("conversations_chat", "change", chat_id, at=seq)
    return format_html('<a href="{}#m{}">{}</a>', url, seq, text)


def placed(chat_id: UUID, matches: Iterable[RecallMatch]) -> list[tuple[SafeString, RecallMatch]]:
    """What was recalled, each with a link to its place."""
    return [(at(chat_id, one.seq, str(one.seq)), one) for one in matches]


def shown_sections(chat_id: UUID, sections: Iterable[Section]) -> list[ShownSection]:
    """`sections` with the seqs of their messages as they are now."""
    sections = list(sections)
    asked = {term for section in sections if section.kind == "question" for term in terms(section.text)}
    wanted = {message_id for section in sections for message_id in section.message_ids}
    # By their keys alone: with the chat, SQLite would rather read all of it.
    seqs = dict(Message.objects.filter(pk__in=wanted).values_list("pk", "seq"))
    return [
        ShownSection(
            section.kind,
            name_of(section.kind),
            section.tokens,
            section.clipped,
            section.text,
            [
                at(chat_id, first, str(first) if first == last else f"{first}–{last}")
                for first, last in runs([seqs[one] for one in section.message_ids if one in seqs])
            ],
            marked(section.text, asked) if section.kind == "recall" else (),
        )
        for section in sections
    ]


def marked(text: str, wanted: set[str]) -> tuple[tuple[str, bool], ...]:
    """`text` cut where words of these terms begin and end; each piece with whether it is one."""
    pieces, done = [], 0
    for start, end in highlights(text, wanted):
        pieces += [(text[done:start], False), (text[start:end], True)]
        done = end
    return tuple(piece for piece in [*pieces, (text[done:], False)] if piece[0])


def runs(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """The seqs in order, those that follow each other as their first and last."""
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
    """Sentences by what they tell of, each with a link to the message to look at for it."""
    return [
        (heading, [_sentence(chat_id, one) for one in told if one.topic == topic])
        for topic, heading in TOPICS.items()
        if any(one.topic == topic for one in told)
    ]


def _sentence(chat_id: UUID, one: Explanation) -> tuple[str, SafeString | str]:
    return one.text, at(chat_id, one.seq, f"View message {one.seq}") if one.seq else ""

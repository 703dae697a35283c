"""A revision of a chat's memory: its text, what changed in it, what it kept and lost, and its provenance.

With the action *restore*, which makes a revision the memory in use again, after a confirmation.
"""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.defaultfilters import pluralize
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.errors import ChatMemoryError
from chatmemory.templatetags.viewing import viewer_time
from conversations.admin.access import OfChatAdmin, Page, may_see, sees_cost
from conversations.admin.audit_log import record
from conversations.admin.html import Step, admin_url, chat_trail, heading, link, since, usd_of
from conversations.models import Message
from memory.admin.states import chip, memory_steps
from memory.briefs import readable_parts, text_of
from memory.folding.answer_checks import SOFT_FAULTS
from memory.folding.estimate import estimate_for
from memory.models import ConversationBrief, SummaryRevision
from memory.policies import policy_name
from memory.revisions.diff import Difference, difference, parent_of
from memory.revisions.restore import restore

EXPLAINED = (
    "Its text becomes the current memory, as a new version. A running update or rebuild is discarded. The memory "
    "keeps this version's policy until the next rebuild."
)


class RestoreAction(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Adds the action to a list of revisions and their pages, for users who may change briefs."""

    actions: Any = ("restore",)

    def has_restore_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("memory.change_conversationbrief"))

    @admin.action(description="Restore…", permissions=["restore"])
    def restore(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        chosen = list(queryset.select_related("chat").defer("global_summary", "state")[:2])
        if len(chosen) != 1:
            self.message_user(request, "Choose one version to restore.", messages.ERROR)
            return None
        if "confirmed" not in request.POST:
            return self._confirmation(request, chosen[0])
        return self._restore(request, chosen[0])

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        context |= {
            "may_restore": self.has_restore_permission(request) and kwargs["obj"].forgotten_at is None,
            "actions_url": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"),
        }
        return super().render_change_form(request, context, *args, **kwargs)

    def _restore(self, request: HttpRequest, revision: SummaryRevision) -> HttpResponse | None:
        """Restore the revision, then show the brief to users who may see it."""
        assert isinstance(request.user, User)  # the admin admits only users
        try:
            pauses = bool(request.POST.get("pause"))
            brief = restore(revision.chat, revision.version, request.user, pauses=pauses)
        except ChatMemoryError as refused:
            self.message_user(request, refused.message, messages.ERROR)
            return None
        self.log_change(request, revision, f"Restored as version {brief.version}.")
        text = f"Version {revision.version} was restored: it is now version {brief.version}, and in use."
        text += " Updates are paused." if brief.paused_at else ""
        self.message_user(request, text, messages.SUCCESS)
        if not self.admin_site.get_model_admin(ConversationBrief).has_view_permission(request):
            return None
        return redirect(admin_url("memory_conversationbrief", "change", revision.chat_id))

    def trail_to(self, request: HttpRequest, revision: SummaryRevision) -> list[Step]:
        """The breadcrumbs of the confirmation."""
        url = admin_url("memory_summaryrevision", "change", revision.pk)
        steps = memory_steps(revision.chat_id, (f"Version {revision.version}", url), ("Restore", ""))
        return chat_trail(revision.chat, may_see(request), *steps)

    def _confirmation(self, request: HttpRequest, revision: SummaryRevision) -> HttpResponse:
        if may_see(request) and revision.chat.title:
            record(request, "memory_summaryrevision", [(revision.chat, revision.pk)])
        context = {
            **self.admin_site.each_context(request),
            "title": f"Restore version {revision.version}?",
            "trail": self.trail_to(request, revision),
            "chat_name": heading(revision.chat, may_see(request)),
            "opts": self.opts,
            "revision": revision,
            "explained": EXPLAINED,
            "again": estimate_for(revision.chat, "update", after_seq=revision.through_seq),
            "again_after": revision.through_seq,
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "media": self.media,
        }
        return TemplateResponse(request, "admin/memory/confirm_restore.html", context)


MESSAGES_READ = 400
"""Messages of a longer revision are not read to locate lost spans; each span links to a search instead."""

HELD_AGAINST = {
    "manual": "the version that was edited mention",
    "rebuild": "all messages up to there mention",
}
"""What the kept share of a revision is a share of, if that is not the turns that it folded."""


class QualityFilter(admin.BooleanFieldListFilter):
    """A filter for the flag `is_wanting`, with the name used in the interface."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = "low quality"


@admin.register(SummaryRevision)
class RevisionAdmin(RestoreAction, OfChatAdmin):
    list_display = (
        *("called", "numbered", "kind", "span", "tokens", "retained_share", "cost"),
        since("created_at"),
    )
    list_select_related = ("chat",)
    list_display_links = ("numbered",)
    list_defer = ("global_summary", "state", "chat__instructions", "chat__metadata", "chat__options")
    chat_ordering = ("chat", "-version")
    chat_filters = ("kind", "degraded", "is_wanting")
    lookups = ("is_wanting__exact",)
    change_form_template = "admin/memory/summaryrevision/change_form.html"

    class Media:
        css = {"all": ("chatmemory/history.css",)}

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        columns = super().get_list_display(request)
        return [one for one in columns if one != "cost" or sees_cost(request)]

    def get_list_filter(self, request: HttpRequest) -> tuple[Any, ...]:
        """Add the filter for low quality, which has an index of its own and works on all chats."""
        shown = super().get_list_filter(request) or ("is_wanting",)
        return tuple(("is_wanting", QualityFilter) if one == "is_wanting" else one for one in shown)

    @admin.display(description="tokens")
    def tokens(self, revision: SummaryRevision) -> str:
        return f"{revision.tokens_before:,} → {revision.tokens_after:,}"

    @admin.display(description="version")
    def numbered(self, revision: SummaryRevision) -> str:
        return f"Version {revision.version}"

    @admin.display(description="cost")
    def cost(self, revision: SummaryRevision) -> str:
        return usd_of(revision.cost_usd)

    def steps(self, row: SummaryRevision) -> list[Step]:
        url = admin_url("memory_summaryrevision", "change", row.pk)
        return memory_steps(row.chat_id, (f"Version {row.version}", url))

    @admin.display(description="messages")
    def span(self, revision: SummaryRevision) -> str:
        return f"{revision.from_seq}–{revision.through_seq}"

    @admin.display(description="details kept")
    def retained_share(self, revision: SummaryRevision) -> SafeString | str:
        """The share of details kept, with the problems of the version."""
        faults = ("degraded" * revision.degraded, "low quality" * revision.is_wanting)
        told = ", ".join(filter(None, faults))
        return (
            format_html("{}<small>{}</small>", _share(revision), chip("bad", told))
            if told
            else _share(revision)
        )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return []  # the page is a template of its own

    def page(self, row: SummaryRevision, name: str) -> Page:
        kept, lost = row.retained.get("kept", []), row.retained.get("lost", [])
        texts = {"title": row.chat.title, "memory": text_of(row), "state": row.state}
        family = _family(row)
        facts = _facts(row, family)
        context = {
            "title": f"Version {row.version} of {name}",
            "subtitle": None,
            "revision": row,
            "facts": facts,
            "share": _share(row),
            "wanting": [SOFT_FAULTS[fault["fault"]] for fault in _each_once(row.soft_faults)],
            "drift": row.drift,
            "previous": family.get(row.version - 1),
            "next": family.get(row.version + 1),
            "held_against": HELD_AGAINST.get(row.kind, "the summarized turns mention"),
        }
        content = {
            "facts": [*facts, _request(row)],
            "remembered": readable_parts(row),
            "diff": changes(row) if row.forgotten_at is None else None,
            "state": json.dumps(row.state, indent=2, ensure_ascii=False, sort_keys=True) if row.state else "",
            "kept": kept,
            "lost": _where_said(row, lost),
            "missing": _missing(row),
            "drifted": _drifted(row),
        }
        texts["focus"] = row.focus
        texts |= {"kept": "\n".join(kept), "lost": "\n".join(lost), "missing": "\n".join(_missing(row))}
        return Page({**texts, "drift": row.drift}, context, content)

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        revision = kwargs["obj"]
        may_change = request.user.has_perm("memory.change_conversationbrief")
        context |= {
            "may_edit": may_change and may_see(request) and revision.forgotten_at is None,
            "edit_url": admin_url(
                "memory_conversationbrief", "edit", revision.chat_id, **{"from": revision.version}
            ),
            "costs": _costs(revision) if sees_cost(request) else "",
        }
        return super().render_change_form(request, context, *args, **kwargs)


def _share(revision: SummaryRevision) -> str:
    share = revision.retained.get("share")
    return "–" if share is None else f"{share:.0%}"


def changes(revision: SummaryRevision) -> Difference | None:
    """Compare the revision with its parent; None without a parent."""
    parent = parent_of(revision)
    return difference(revision, parent) if parent else None


def _each_once(faults: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first fault of each kind: those of a rebuild come from many bites."""
    return list({fault["fault"]: fault for fault in reversed(faults)}.values())[::-1]


def _missing(revision: SummaryRevision) -> list[str]:
    """The spans that soft faults name as lost."""
    return list(dict.fromkeys(span for fault in revision.soft_faults for span in fault.get("lost", ())))


def _drifted(revision: SummaryRevision) -> list[tuple[str, list[str]]]:
    """What a rebuild found to be lost and added, with headings."""
    drift = revision.drift
    if drift is None:
        return []
    return [
        ("Lost before, found again", drift["lost"]),
        ("Known before, no longer known", drift["only_before"]),
        ("Stated before, but in no message", drift["added"]["before"]),
        ("Stated now, but in no message", drift["added"]["after"]),
    ]


def _family(revision: SummaryRevision) -> dict[int, int]:
    """The ids of the revisions that its page links to, by version: its parent, and those before and after it."""
    versions = {revision.parent or 0, revision.version - 1, revision.version + 1}
    rows = SummaryRevision.objects.filter(chat_id=revision.chat_id, version__in=versions)
    return dict(rows.values_list("version", "pk"))


def _where_said(revision: SummaryRevision, spans: list[str]) -> list[dict[str, str]]:
    """Each lost span with a link to the message that said it, or else to a search for it in the chat.

    Messages are read only if they are few: those of one bite, not those of a whole chat that was rebuilt.
    """
    said: list[tuple[int, str]] = []
    if spans and 0 < revision.through_seq - revision.from_seq < MESSAGES_READ:
        rows = Message.objects.filter(
            chat_id=revision.chat_id, seq__gte=revision.from_seq, seq__lte=revision.through_seq
        )
        said = [(seq, text.casefold()) for seq, text in rows.order_by("seq").values_list("seq", "content")]
    found: list[dict[str, str]] = []
    for span in spans:
        seq = next((seq for seq, text in said if span.casefold() in text), None)
        query: dict[str, Any] = {"q": span} if seq is None else {"at": seq}
        url = admin_url("conversations_chat", "change", revision.chat_id, **query)
        found.append({"span": span, "url": url, "where": f"message {seq}" if seq else "search"})
    return found


def _costs(revision: SummaryRevision) -> str:
    return usd_of(revision.cost_usd) if revision.cost_usd is not None else "not known"


def _facts(revision: SummaryRevision, family: dict[int, int]) -> list[tuple[str, list[tuple[str, Any]]]]:
    chat_id = revision.chat_id
    return [
        (
            "Version",
            [
                ("Chat", link(chat_id, "conversations_chat", "change", chat_id)),
                ("Memory", link("version history", "memory_conversationbrief", "change", chat_id)),
                ("Kind", f"{revision.get_kind_display()}, {policy_name(revision.policy)}"),
                ("Made from", _parent(revision, family)),
                ("Summarized", _span(revision)),
                ("Tokens", f"{revision.tokens_before:,} before, {revision.tokens_after:,} after"),
            ],
        ),
        (
            "Origin",
            [
                ("Model", f"{revision.model or '–'}{' (built-in)' if revision.degraded else ''}"),
                *(
                    [("Instructions", "MEMORY_SUMMARIZER_INSTRUCTIONS")]
                    if revision.custom_instructions
                    else []
                ),
                (
                    "Usage",
                    f"{revision.input_tokens:,} input tokens, {revision.output_tokens:,} output tokens",
                ),
                ("Duration", f"{revision.duration_ms:,} ms"),
                ("By", revision.created_by or "the worker"),
                ("When", viewer_time(revision.created_at)),
            ],
        ),
    ]


def _request(revision: SummaryRevision) -> tuple[str, list[tuple[str, Any]]]:
    """The chat's focus, and the hashes; they count as content, since a short text can be guessed from a plain hash."""
    hashes = [
        ("Instructions, hash", revision.prompt_hash or "–"),
        ("Source, hash", revision.source_hash or "–"),
    ]
    return ("Request", [*([("Focus", revision.focus)] if revision.focus else []), *hashes])


def _span(revision: SummaryRevision) -> SafeString | str:
    if revision.through_seq < revision.from_seq:
        return (
            f"nothing new; covers messages 1–{revision.through_seq:,}" if revision.through_seq else "nothing"
        )
    span = {
        "seq__gte": revision.from_seq,
        "seq__lte": revision.through_seq,
        "chat__id__exact": revision.chat_id,
    }
    text = f"{revision.turns} turn{pluralize(revision.turns)}, messages {revision.from_seq}–{revision.through_seq}"
    return link(text, "conversations_message", "changelist", **span)


def _parent(revision: SummaryRevision, family: dict[int, int]) -> SafeString | str:
    if not revision.parent:
        return "no earlier version"
    if revision.parent not in family:
        return f"version {revision.parent} (deleted)"
    return link(f"version {revision.parent}", "memory_summaryrevision", "change", family[revision.parent])

"""The page of a chat: its turns, where memory has each of them, and beside them its memory and pins; deleting chats.

A page costs the same however long the chat is: queries are by (chat, seq), and reach only as far as the page.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Exists, F, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Left, Length
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path
from django.utils.safestring import SafeString

from chatmemory.errors import NotFound
from conversations import chat_lifecycle
from conversations.accounts.models import EndUser
from conversations.admin.access import may_see, number_in, record_export, record_list, refused
from conversations.admin.html import admin_url, column, heading, link, since
from conversations.models import ActiveReply, Chat, ChatCompletion, Message, Role
from memory.across.consent import level_of
from memory.admin.actions import MemoryActions
from memory.admin.filters import AppFilter, MemoryFilter, memory_of
from memory.api.account_export import download
from memory.briefs import history_tokens, readable_parts
from memory.context.build import preview_last
from memory.context.plan import Plan
from memory.explain.reasons import budget_of, coverage_of
from memory.explain.timeline import Fold, Mark, TurnPlaces, folds_of
from memory.explain.trace import MAX_CHARS, WAYS, trace_fact
from memory.history.turns import StoredMessage, Turn, to_turns
from memory.models import ContextRecord, ConversationBrief, Pin, SummaryRevision
from memory.pins.pins import unpin
from memory.policies import policy_name
from memory.status import work_of

SUMMED_MESSAGES = 2000
"""Number of newest messages whose tokens and cost a chat's page adds up: adding up all of a long chat is slow."""
SUMMED = ("token_count", "input_tokens", "output_tokens", "cost_usd")
MAY_UNPIN = "memory.delete_pin"
SPAN = 60
"""How many messages a page has, besides those before it of its first turn."""
BEFORE = 16
"""About how many messages a page shows before the one it is opened at."""
TEXT_CHARS = 1500
"""How many characters of a message are shown; the rest is on the message's own page."""


def _owner(chat: Chat) -> SafeString:
    """Link to the owner's chats."""
    return link(chat.owner, "conversations_chat", "changelist", owner__id__exact=chat.owner_id)


@admin.register(Chat)
class ChatAdmin(MemoryActions):
    """Read-only, except for deletion, for pins, and for the actions on memory."""

    chat_path = ""
    list_display: Any = (
        *("title_link", "project", column("owner", _owner), column("policy", lambda row: policy_name(row.policy))),
        *(
            column("messages", lambda row: f"{row.last_seq:,}"),
            column("memory", lambda row: memory_of(getattr(row, "brief", None))),
        ),
        since("updated_at"),
    )
    list_display_links = None
    content_columns = ("project",)
    list_select_related: ClassVar[Any] = ("owner", "brief")
    list_filter = (MemoryFilter, AppFilter)
    lookups = ("owner__id__exact",)
    ordering = ("-updated_at", "-pk")
    page_template = "admin/memory/chat.html"
    has_delete_permission = admin.ModelAdmin.has_delete_permission

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        trace, remove = view(self.trace_page), view(self.unpin_view)
        return [
            path("<uuid:chat_id>/trace/", trace, name="conversations_chat_trace"),
            path("<uuid:chat_id>/pins/<uuid:pin_id>/remove/", remove, name="conversations_chat_unpin"),
            path("of/<int:user_id>/export.json", view(self.export_view), name="conversations_chat_export"),
            *super().get_urls(),
        ]

    def page_context(self, request: HttpRequest, row: Chat) -> dict[str, Any]:
        brief, preview = getattr(row, "brief", None), preview_last(row)
        folds = folds_of(brief)
        coverage = coverage_of(preview.plan, sum(fold.turns for fold in folds))
        pins = Pin.objects.filter(chat=row, ended_at__isnull=True).select_related("pinned_by", "message")
        pins = pins.defer(*(f"message__{name}" for name in ("content", "metadata", "terms", "outline")))
        newest = Message.objects.filter(chat=row, seq__gt=row.last_seq - SUMMED_MESSAGES).order_by("seq")
        head = SummaryRevision.objects.filter(chat=row, version=brief.head if brief else 0)
        end_users = EndUser.objects.select_related("app__user")
        return {
            "title": heading(row),
            "shares": level_of(row).label.lower(),
            "end_user": end_users.filter(pk=row.owner_id).first() if row.app_id else None,
            "timeline": timeline(row, brief, folds, preview.plan, request.GET),
            "brief": brief if row.last_seq else None,
            "head": head.only("id", "version", "kind", "created_at", "is_wanting").first(),
            "work": work_of(brief),
            "coverage": coverage,
            "turns": sum(part.count for part in coverage),
            "budget": budget_of(preview.sections, preview.plan.budget),
            "said_tokens": history_tokens(brief),
            "remembered": readable_parts(brief) if brief else [],
            "pins": pins.order_by("-seq", "-start", "-pk"),
            "newest": newest.aggregate(count=Count("pk"), **{name: Sum(name) for name in SUMMED}),
            "reply": newest.filter(role=Role.ASSISTANT).only("model", "model_variant").last(),
        }

    def trace_page(self, request: HttpRequest, chat_id: UUID) -> HttpResponse:
        """Show where the fact `?text=MFRB94` is and was."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if not may_see(request):
            return refused(request)
        chat = get_object_or_404(Chat, pk=chat_id)
        text = request.GET.get("text", "").replace("\0", "").strip()[:MAX_CHARS]
        found = trace_fact(chat, text) if text else None
        now = [WAYS[way] for way in found.now] if found else []
        context = {"title": "Trace a fact", "text": text, "trace": found, "now": now}
        return self.page(request, chat, "admin/memory/trace.html", context)

    def export_view(self, request: HttpRequest, user_id: int) -> HttpResponseBase:
        """Download all data of a user, as they can themselves. It is recorded."""
        owner = get_object_or_404(User.objects.select_related("end_user"), pk=user_id)
        needed = "conversations.view_enduser" if hasattr(owner, "end_user") else "auth.view_user"
        if not (self.has_view_permission(request) and request.user.has_perm(needed)):
            raise PermissionDenied
        if not may_see(request):
            return refused(request)
        record_export(request, owner)
        return download(owner.pk)

    def unpin_view(self, request: HttpRequest, chat_id: UUID, pin_id: UUID) -> HttpResponse:
        """Remove a pin, and go back to the chat's page."""
        if not (self.has_view_permission(request) and request.user.has_perm(MAY_UNPIN)):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        chat = get_object_or_404(Chat, pk=chat_id)
        try:
            unpin(chat, pin_id)
        except NotFound:
            self.message_user(request, "This pin was already removed.", messages.WARNING)
        else:
            self.log_change(request, chat, f"Removed pin {pin_id}.")
            self.message_user(request, "The pin was removed. It will not be in any further prompt.")
        return redirect(admin_url("conversations_chat", "change", chat_id))

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return what will be deleted as counts: Django's default would load every message to list it."""
        chats, may = list(objs), may_see(request)
        if may:
            record_list(request, self.own_name, chats)
        counts = {"chats": len(chats), "messages": sum(chat.last_seq for chat in chats)}
        return [heading(chat, may) for chat in chats], counts, set(), []

    def delete_model(self, request: HttpRequest, obj: Chat) -> None:
        chat_lifecycle.delete_chat(obj)


# A page of turns


class Moment(NamedTuple):
    """One turn of a page."""

    turn: Turn
    mark: Mark
    messages: tuple[Any, ...]
    """Messages with `text`, `missing`, `newer_seq` and `has_prompt`."""
    active: ActiveReply | None
    """The reply that is being written, as far as it was saved."""


class TimelinePage(NamedTuple):
    """Turns in order. `older` and `newer` are where the adjacent pages begin; None at that end of the chat."""

    moments: tuple[Moment, ...] = ()
    older: int | None = None
    newer: int | None = None
    at: int | None = None
    """The message that the page was opened at."""


def timeline(
    chat: Chat, brief: ConversationBrief | None, folds: Sequence[Fold], plan: Plan, query: Mapping[str, str]
) -> TimelinePage:
    """The page from `?from=` on, or with the message `?at=`, or else the newest.

    The memory of `chat`, `brief`, was made by `folds`, and its next prompt shows `plan`.
    """
    at, start = number_in(query.get("at")), number_in(query.get("from"))
    if at is not None:
        at = max(1, min(at, chat.last_seq))
        start = at - BEFORE
    elif start is None:
        start = chat.last_seq - SPAN + 1
    rows = _rows(chat, max(1, min(start, chat.last_seq)))
    if not rows:
        return TimelinePage()
    active = ActiveReply.objects.filter(chat=chat).annotate(seq=F("user_message__seq")).first()
    first, last = rows[0].seq, rows[-1].seq
    places = TurnPlaces(plan, brief.folded_through_seq if brief else 0, folds, getattr(active, "seq", None))
    moments = []
    for turn in to_turns([StoredMessage.of(row, text=False) for row in rows]):
        mark = places.of(turn)
        own = tuple(row for row in rows if turn.from_seq <= row.seq <= turn.through_seq)
        moments.append(Moment(turn, mark, own, active if mark.place == "waiting" else None))
    return TimelinePage(
        tuple(moments),
        older=max(1, first - SPAN) if first > 1 else None,
        newer=last + 1 if last < chat.last_seq else None,
        at=at,
    )


def _rows(chat: Chat, start: int) -> list[Any]:
    """The messages of the page that begins at `start`, as whole turns unless these are very long."""
    questions = Message.objects.filter(chat=chat, role=Role.USER, seq__lte=start).order_by("seq")
    question = questions.values_list("seq", flat=True).last() or 1
    first = question if start - question < SPAN else start
    rows = list(_messages(chat).filter(seq__range=(first, start + SPAN)).order_by("seq"))
    if rows and rows[-1].seq == start + SPAN:
        # The last turn may go on beyond the page: it is left to the next one, unless it begins before the page's end.
        last = range(len(rows) - 1, len(rows) - SPAN // 2, -1)
        end = next((at for at in last if rows[at].role == Role.USER), len(rows) - 1)
        rows = rows[:end]
    return rows


def _messages(chat: Chat) -> QuerySet[Message]:
    rows = Message.objects.filter(chat=chat).defer("content", "outline", "metadata", "terms")
    through = ChatCompletion.objects.filter(pk=OuterRef("pk"), user=OuterRef("owner_id"))
    prompts = ContextRecord.objects.filter(pk=OuterRef("pk"), owner_id=OuterRef("owner_id"))
    return rows.annotate(
        text=Left("content", TEXT_CHARS),
        missing=Length("content") - Length(Left("content", TEXT_CHARS)),
        newer_seq=F("superseded_by__seq"),
        has_prompt=Exists(prompts),
        api=Subquery(through.values("api")),
    )

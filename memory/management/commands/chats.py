"""`manage.py chats`: the chats of a database, newest first, with their sizes and the state of their memory."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet
from django.utils import timezone

from chatmemory.runtime.escape import plain
from conversations.management.prompts import user_named
from conversations.models import Chat
from memory.briefs import history_tokens, unfolded
from memory.models import ConversationBrief
from memory.policies import POLICIES
from memory.work import CONDITIONS, work_of

USUAL = 50
TITLE_CHARS = 40
MOST_DAYS = 36_500
"""A hundred years; much more would be out of the range of dates."""
HEADINGS = ("chat", "owner", "messages", "tokens", "summary", "unsummarized", "status", "title")


class Command(BaseCommand):
    help = (
        "List chats, newest first: owner, messages, tokens, summary, what is not summarized yet, and status."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--owner", metavar="U", help="only the chats of this user")
        parser.add_argument("--policy", choices=sorted(POLICIES), help="only chats remembered by this policy")
        parser.add_argument(
            "--state", choices=tuple(CONDITIONS), help="only chats whose memory is in this state"
        )
        parser.add_argument("--search", metavar="TEXT", help="only chats with this in their title")
        parser.add_argument("--days", type=int, metavar="N", help="only chats used in the last N days")
        parser.add_argument(
            "--limit", type=int, default=USUAL, metavar="N", help=f"show at most this many (default: {USUAL})"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        limit: int = options["limit"]
        if limit < 1:
            raise CommandError("--limit takes a number from 1 on.")
        if options["days"] is not None and not 0 <= options["days"] <= MOST_DAYS:
            raise CommandError(f"--days takes a number from 0 to {MOST_DAYS:,}.")
        found = list(_chosen(options)[: limit + 1])
        rows = [HEADINGS, *(_row(chat) for chat in found[:limit])]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())
        more = f"; there are more: see --limit {limit * 2}" if len(found) > limit else ""
        shown = min(len(found), limit)
        self.stderr.write(f"{shown} {'chat' if shown == 1 else 'chats'}{more}")


def _chosen(options: dict[str, Any]) -> QuerySet[Chat]:
    chats = Chat.objects.select_related("owner", "brief").order_by("-pk")
    chats = chats.defer("instructions", "metadata", "brief__global_summary", "brief__state")
    if options["owner"]:
        chats = chats.filter(owner=user_named(options["owner"]))
    if options["policy"]:
        chats = chats.filter(policy=options["policy"])
    if options["state"]:
        chats = chats.filter(brief__in=ConversationBrief.objects.filter(CONDITIONS[options["state"]]))
    if options["search"]:
        chats = chats.filter(title__icontains=options["search"])
    if options["days"] is not None:
        chats = chats.filter(updated_at__gte=timezone.now() - timedelta(days=options["days"]))
    return chats


def _row(chat: Chat) -> tuple[str, ...]:
    brief: ConversationBrief | None = getattr(chat, "brief", None)
    left = unfolded(brief).tokens if brief else 0
    tokens = history_tokens(brief, left)
    return (
        str(chat.pk),
        plain(chat.owner.username),
        f"{chat.last_seq:,}",
        "–" if tokens is None else f"{tokens:,}",
        f"version {brief.head}, {brief.token_count:,}" if brief and brief.head else "none",
        f"{left:,}",
        work_of(brief, worker_problem=lambda: None).label,
        plain(chat.title)[:TITLE_CHARS],
    )

"""`manage.py memory`: the chats with the state of their memory, newest first; of one chat, what its memory holds."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet

from chatmemory.runtime.escape import plain, plain_lines
from conversations.management.prompts import chat_named, user_named
from conversations.models import Chat
from memory.briefs import history_tokens, readable_parts, unfolded
from memory.context.build import preview_last
from memory.explain.reasons import name_of
from memory.models import ConversationBrief, Pin
from memory.policies import policy_name
from memory.policies.state_parts import plain_text
from memory.status import CONDITIONS, work_of
from memory.usage.figures import counted

USUAL = 50
TITLE_CHARS = 40
HEADINGS = ("chat", "owner", "messages", "tokens", "summary", "unsummarized", "status", "title")


class Command(BaseCommand):
    help = (
        "List chats, newest first: owner, messages, tokens, summary, what is not summarized yet, and status. Of one "
        "chat, show what its memory holds: its sizes, its summary, its pins, and what a prompt shows now."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chat", nargs="?", metavar="CHAT", help="id of the chat to show; default: a list")
        parser.add_argument("--owner", metavar="U", help="only the chats of this user")
        parser.add_argument("--state", choices=tuple(CONDITIONS), help="only chats whose memory is in this state")
        parser.add_argument("--search", metavar="TEXT", help="only chats with this in their title")
        parser.add_argument(
            "--limit", type=int, default=USUAL, metavar="N", help=f"list at most this many (default: {USUAL})"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["chat"]:
            self._show(chat_named(options["chat"]))
            return
        limit: int = options["limit"]
        if limit < 1:
            raise CommandError("--limit takes a number from 1 on.")
        found = list(_chosen(options)[: limit + 1])
        rows = [HEADINGS, *(_row(chat) for chat in found[:limit])]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())
        more = f"; there are more: see --limit {limit * 2}" if len(found) > limit else ""
        self.stderr.write(f"{counted(min(len(found), limit), 'chat')}{more}")

    def _show(self, chat: Chat) -> None:
        brief = ConversationBrief.objects.filter(chat=chat).first()
        tokens, prompt = history_tokens(brief), preview_last(chat)
        parts = ", ".join(f"{name_of(one.kind)} {one.tokens:,}" for one in prompt.sections if one.tokens)
        lines = {
            "Chat": f"{plain(chat.title) or 'without title'}, of {plain(chat.owner.username)}",
            "Messages": f"{chat.last_seq:,}, {'–' if tokens is None else f'{tokens:,}'} tokens said",
            "Policy": policy_name(chat.policy),
            "Status": work_of(brief).sentence,
        }
        if brief is not None and brief.head:
            covers = f"covers messages 1–{brief.folded_through_seq:,}"
            lines["Summary"] = f"version {brief.head}, {brief.token_count:,} tokens, {covers}"
        if brief is not None and brief.paused_at:
            lines["Paused"] = f"since {brief.paused_at:%Y-%m-%d %H:%M} UTC, by {brief.paused_by_whom}"
        if brief is not None:
            left = unfolded(brief)
            lines["Not in it"] = f"{left.turns:,} turns, {left.tokens:,} tokens"
        lines["Next prompt"] = f"{prompt.tokens:,} of {prompt.plan.budget:,} tokens: {parts or 'nothing'}"
        for name, line in lines.items():
            self.stdout.write(f"{name:11} {line}")
        if brief is not None and (text := plain_text(readable_parts(brief))):
            self.stdout.write(f"\nSummary\n{plain_lines(text)}")
        for text in Pin.objects.filter(chat=chat, ended_at__isnull=True).values_list("text", flat=True):
            self.stdout.write(f"\nPinned: {plain(text)}")


def _chosen(options: dict[str, Any]) -> QuerySet[Chat]:
    chats = Chat.objects.select_related("owner", "brief").order_by("-pk")
    chats = chats.defer("instructions", "metadata", "brief__global_summary", "brief__state")
    if options["owner"]:
        chats = chats.filter(owner=user_named(options["owner"]))
    if options["state"]:
        chats = chats.filter(brief__in=ConversationBrief.objects.filter(CONDITIONS[options["state"]]))
    if options["search"]:
        chats = chats.filter(title__icontains=options["search"])
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

"""`manage.py resummarize`: update the memory of chats, or rebuild it from the original messages."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet

from chatmemory.database.rows import in_chunks
from chatmemory.runtime.escape import plain
from conversations.chat_lifecycle import update_chat
from conversations.management.prompts import chat_named, progress_bar
from conversations.models import Chat
from memory.changes import is_by_another_policy
from memory.folding.fold import FoldReport
from memory.folding.request import Estimate, Mode, estimate_for, request_resummarize, resummarize_now
from memory.policies import POLICIES
from memory.usage.figures import counted


class Command(BaseCommand):
    help = "Update the memory of chats, or rebuild it from the original messages."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chats", nargs="*", metavar="CHAT", help="id of a chat")
        parser.add_argument("--all", action="store_true", help="all chats, except those whose updates are paused")
        parser.add_argument(
            "--rebuild", action="store_true", help="start from the first message instead of the summary"
        )
        parser.add_argument("--policy", choices=sorted(POLICIES), help="also switch the chats to this policy")
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="show what would be summarized and what it would cost, without calling a model",
        )
        parser.add_argument("--sync", action="store_true", help="run now instead of in a worker")

    def handle(self, *_args: Any, **options: Any) -> None:
        chats = _chosen(options["chats"], everything=options["all"])
        if options["all"]:
            chats = self._unpaused(chats)
        total, failed = chats.count(), 0
        if options["dry_run"]:
            self._foresee(chats, options)
            return
        for number, chat in enumerate(in_chunks(chats.order_by("pk")), start=1):
            line, is_well = self._resummarize(chat, options, title=f"Resummarizing {number} of {total}")
            self.stdout.write(f"{chat.pk}: {line}")
            failed += not is_well
        if failed:
            raise CommandError(f"{failed} of {total} chats failed.")

    def _unpaused(self, chats: QuerySet[Chat]) -> QuerySet[Chat]:
        """Skip chats whose updates are paused, to keep restored or edited memory, unless a chat is named."""
        paused = chats.filter(brief__paused_at__isnull=False).count()
        if paused:
            are = "chat is" if paused == 1 else "chats are"
            self.stdout.write(f"{paused} {are} skipped: updates are paused. Name them explicitly to update them.")
        return chats.filter(brief__paused_at=None)

    def _resummarize(self, chat: Chat, options: dict[str, Any], title: str) -> tuple[str, bool]:
        """Do what was requested for one chat. Return the line to print, and whether it succeeded."""
        policy, mode = _policy_and_mode(chat, options)
        if policy != chat.policy:
            chat = update_chat(chat, {"policy": policy})
        if not options["sync"]:
            return f"{mode} queued as task {request_resummarize(chat, mode)}", True
        with progress_bar(title, estimate_for(chat, mode).calls, self.stderr) as advance:
            report = resummarize_now(chat, mode, tell=advance)
        return _outcome(report), report.outcome != "waiting"

    def _foresee(self, chats: QuerySet[Chat], options: dict[str, Any]) -> None:
        """Print what would be done, one line per chat, and the total. Spends and changes nothing."""
        estimates = []
        for chat in in_chunks(chats.order_by("pk")):
            chat.policy, mode = _policy_and_mode(chat, options)  # only for the estimate: it is not saved
            estimate = estimate_for(chat, mode)
            estimates.append(estimate)
            what = f"{counted(estimate.turns, 'turn')}, {counted(estimate.tokens, 'token')}"
            title = f" · {plain(chat.title)}" if chat.title else ""
            self.stdout.write(f"{chat.pk}: would summarize {what} ({mode}){title}")
        self.stdout.write(_total(estimates))


def _total(estimates: list[Estimate]) -> str:
    """The total as one line."""
    turns, tokens, calls = (sum(getattr(one, name) for one in estimates) for name in ("turns", "tokens", "calls"))
    costs = [one.cost_usd for one in estimates if one.cost_usd is not None]
    price = f"about ${sum(costs):.4f}" if len(costs) == len(estimates) else "price not known"
    what = f"{counted(turns, 'turn')}, {counted(tokens, 'token')} in {counted(len(estimates), 'chat')}"
    return f"Total: {what}; about {counted(calls, 'summarizer call')}, {price}. Nothing was done."


def _policy_and_mode(chat: Chat, options: dict[str, Any]) -> tuple[str, Mode]:
    """The policy and the mode that the options request for the chat."""
    policy: str = options["policy"] or chat.policy
    switches = policy != chat.policy or (options["policy"] and is_by_another_policy(chat))
    return policy, "rebuild" if options["rebuild"] or switches else "update"


def _chosen(ids: list[str], *, everything: bool) -> QuerySet[Chat]:
    """The chats that were named. Raises `CommandError` if one does not exist, or if none was named."""
    if bool(ids) == everything:
        raise CommandError("Name chats by their ids, or all of them with --all.")
    chats = Chat.objects.all()
    return chats.filter(pk__in=[chat_named(text).pk for text in ids]) if ids else chats


def _outcome(report: FoldReport) -> str:
    if report.outcome == "idle":
        return "a worker is already on it"
    if report.outcome == "waiting":
        return f"failed: {report.error or 'the next attempt waits'}"
    if not report.published:
        return "nothing to summarize"
    return f"{counted(report.published, 'version')} from {counted(report.batches, 'call')}"

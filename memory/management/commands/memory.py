"""`manage.py memory CHAT`: the contents and the state of one chat's memory."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.errors import ChatMemoryError
from chatmemory.runtime.escape import plain, plain_lines
from conversations.management.prompts import chat_named
from conversations.models import Chat
from memory.briefs import history_tokens, readable_parts, unfolded
from memory.context.build import preview_last
from memory.explain.reasons import name_of
from memory.models import ConversationBrief, Pin, SummaryRevision
from memory.policies import policy_name
from memory.policies.state_parts import plain_text
from memory.revisions.by_hand import pause_updates, restore, resume_updates
from memory.work import work_of


class Command(BaseCommand):
    help = (
        "Show what the memory of a chat holds: its sizes, its summary, its pins, and what a prompt shows now; "
        "or restore an older version, pause its updates, or resume them."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chat", metavar="CHAT", help="id of the chat")
        parser.add_argument(
            "--version", type=int, metavar="V", dest="of", help="show the text of this version instead"
        )
        parser.add_argument(
            "--restore", type=int, metavar="V", help="make this version the current one again"
        )
        held = parser.add_mutually_exclusive_group()
        held.add_argument("--pause", action="store_true", help="pause updates of the summary")
        held.add_argument("--resume", action="store_true", help="resume updates of the summary")

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        # Replaces Django's own --version, which is of no use for a single command.
        return super().create_parser(prog_name, subcommand, conflict_handler="resolve", **kwargs)

    def handle(self, *_args: Any, **options: Any) -> None:
        chat = chat_named(options["chat"])
        if options["restore"] is not None:
            try:
                restore(chat, options["restore"], pauses=options["pause"])
            except ChatMemoryError as refused:
                raise CommandError(refused.message) from refused
        elif options["pause"]:
            pause_updates(chat, None)
        if options["resume"]:
            resume_updates(chat, None)
        brief = ConversationBrief.objects.filter(chat=chat).first()
        if options["of"] is not None:
            self._text(_version(chat, options["of"]))
            return
        self._numbers(chat, brief)
        if brief is not None:
            self._text(brief)
        for text in Pin.objects.filter(chat=chat, ended_at__isnull=True).values_list("text", flat=True):
            self.stdout.write(f"\nPinned: {plain(text)}")

    def _numbers(self, chat: Chat, brief: ConversationBrief | None) -> None:
        shown = preview_last(chat)
        tokens = history_tokens(brief)
        self.stdout.write(
            f"Chat        {plain(chat.title) or 'without title'}, of {plain(chat.owner.username)}"
        )
        self.stdout.write(
            f"Messages    {chat.last_seq:,}, {'–' if tokens is None else f'{tokens:,}'} tokens said"
        )
        self.stdout.write(f"Policy      {policy_name(chat.policy)}")
        self.stdout.write(f"Status      {work_of(brief).sentence}")
        if brief is not None and brief.head:
            covers = f"covers messages 1–{brief.folded_through_seq:,}"
            self.stdout.write(f"Summary     version {brief.head}, {brief.token_count:,} tokens, {covers}")
        if brief is not None and brief.paused_at:
            self.stdout.write(
                f"Paused      since {brief.paused_at:%Y-%m-%d %H:%M} UTC, by {brief.paused_by_whom}"
            )
        if brief is not None:
            left = unfolded(brief)
            self.stdout.write(f"Not in it   {left.turns:,} turns, {left.tokens:,} tokens")
        parts = ", ".join(f"{name_of(one.kind)} {one.tokens:,}" for one in shown.sections if one.tokens)
        self.stdout.write(
            f"Next prompt {shown.tokens:,} of {shown.plan.budget:,} tokens: {parts or 'nothing'}"
        )

    def _text(self, row: ConversationBrief | SummaryRevision) -> None:
        if text := plain_text(readable_parts(row)):
            self.stdout.write(f"\nSummary\n{plain_lines(text)}")


def _version(chat: Chat, version: int) -> SummaryRevision:
    found = SummaryRevision.objects.filter(chat=chat, version=version).first()
    if found is None:
        raise CommandError(f"The memory of this chat has no version {version}.")
    return found

"""The command `resummarize`: it queues by default, folds at once with --sync, and exits non-zero on failure."""

import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from django_q.models import OrmQ

from chatmemory.llm import registry
from conversations.models import Chat
from memory.briefs import unfolded
from memory.folding.request import estimate_for
from memory.models import ConversationBrief, RevisionKind
from memory.policies import POLICIES
from memory.policies.chunked import Chunked
from memory.revisions.by_hand import restore
from tests.support.commands import refusal, run
from tests.support.factories import brief_of
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import DOWN, Killed, assert_folded, chat_of, revisions

pytestmark = pytest.mark.django_db


def resummarize(*args: Any, **options: Any) -> list[str]:
    """Run the command and return the lines it prints."""
    return run("resummarize", *args, **options).splitlines()


def test_request_update_is_stored_and_queued(model: KeepingModel) -> None:
    chat = chat_of(5)
    OrmQ.objects.all().delete()
    (line,) = resummarize(chat.pk)
    (queued,) = OrmQ.objects.all()
    assert line == f"{chat.pk}: update queued as task {queued.name()}"
    assert queued.task["args"][0] == str(chat.pk)
    assert brief_of(chat).requested == "update"
    assert model.prompts == []


def test_sync_does_it_here_and_now(model: KeepingModel) -> None:
    chat = chat_of(8)
    (line,) = resummarize(chat.pk, sync=True)
    assert line == f"{chat.pk}: 2 versions from 2 calls"
    assert_folded(chat, through=5)
    assert resummarize(chat.pk, sync=True) == [f"{chat.pk}: nothing to summarize"]


def test_dry_run_tells_and_spends_nothing(model: KeepingModel) -> None:
    chat = chat_of(8)
    OrmQ.objects.all().delete()
    line, total = resummarize(chat.pk, dry_run=True)
    assert line.startswith(f"{chat.pk}: would summarize 5 turns, ")
    tokens = int(line.split(", ")[1].split()[0])
    assert tokens < unfolded(brief_of(chat)).tokens
    assert total.startswith(f"Total: 5 turns, {tokens:,} tokens in 1 chat; about ")
    again, total_again = resummarize(chat.pk, "--dry-run", "--sync", "--rebuild")
    assert (again, total_again) == (line.replace("update", "rebuild"), total)
    assert (brief_of(chat).requested, OrmQ.objects.count(), model.prompts) == ("", 0, [])


def test_request_update_dry_run_returns_total_cost(
    model: KeepingModel, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "is_offline", lambda: False)
    for _ in range(2):
        chat_of(8)
    settings.MEMORY_SUMMARIZER_MODEL = "gpt-5"
    each = [estimate_for(chat, "rebuild").cost_usd for chat in Chat.objects.all()]
    assert None not in each
    total = resummarize("--all", "--rebuild", "--dry-run")[-1]
    assert "in 2 chats; about 4 summarizer calls" in total
    assert f"about ${sum(filter(None, each)):.4f}. Nothing was done." in total
    settings.MEMORY_SUMMARIZER_MODEL = "llama-3.1"
    assert "price not known" in resummarize("--all", "--rebuild", "--dry-run")[-1]


def test_policy_switches_the_chat_and_rebuilds(model: KeepingModel, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Chunked):
        name = "other"

    monkeypatch.setitem(POLICIES, "other", Other())
    chat = chat_of(8)
    resummarize(chat.pk, policy="other", sync=True)
    assert Chat.objects.get(pk=chat.pk).policy == "other"
    assert (brief_of(chat).policy, revisions(chat)[-1].kind) == ("other", RevisionKind.REBUILD)


@pytest.mark.parametrize("name", ["019a0000-0000-7000-8000-000000000000", "nonsense"])
def test_an_unknown_chat_is_named_and_nothing_is_done(model: KeepingModel, name: str) -> None:
    chat = chat_of(8)
    assert refusal("resummarize", chat.pk, name, sync=True) == f"There is no chat {name}."
    assert model.prompts == []


def test_request_update_command_requires_chats_or_all(model: KeepingModel) -> None:
    assert "--all" in refusal("resummarize")
    assert "--all" in refusal("resummarize", chat_of(1).pk, "--all")


def test_request_update_command_continues_after_failure(model: KeepingModel) -> None:
    bad, good = chat_of(8), chat_of(8)
    model.lines = [DOWN]
    out = io.StringIO()
    with pytest.raises(CommandError, match="1 of 2 chats failed"):
        call_command("resummarize", "--all", "--sync", stdout=out)
    assert out.getvalue().splitlines()[0] == f"{bad.pk}: failed: upstream_error"
    assert_folded(good, through=5)


def test_a_restored_version_is_kept_by_all_that_does_not_name_it(model: KeepingModel) -> None:
    chat, other = chat_of(12), chat_of(12)
    resummarize("--all", "--sync")
    restore(chat, 1, pauses=True)
    told, nothing = resummarize("--all", "--sync")
    assert told.startswith("1 chat is skipped")
    assert nothing == f"{other.pk}: nothing to summarize"
    assert brief_of(chat).version == 4
    resummarize(chat.pk, "--sync")
    assert_folded(chat, through=9)


def test_request_update_reports_running_rebuild(model: KeepingModel) -> None:
    chat = chat_of(12)
    resummarize(chat.pk, "--sync")
    model.lines = [lambda prompt: "T1 T2 T3", Killed()]
    with pytest.raises(Killed):
        resummarize(chat.pk, "--rebuild", "--sync")
    later = timezone.now() + timedelta(minutes=1)
    ConversationBrief.objects.filter(chat=chat).update(lease_owner="somebody", lease_expires_at=later)
    (line,) = resummarize(chat.pk, "--rebuild", "--sync")
    assert line == f"{chat.pk}: a worker is already on it"
    ConversationBrief.objects.filter(chat=chat).update(lease_owner="", lease_expires_at=None)

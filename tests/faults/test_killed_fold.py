"""A process killed during a summarizer's call: the attempt counts, the chat is found again, nothing lost or doubled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.utils import timezone

from conversations.models import Chat
from memory.folding.rebuild import current_progress
from memory.folding.request import request_resummarize
from memory.models import ConversationBrief, RevisionKind
from memory.worker.sweep import sweep
from tests.faults.bench import queued
from tests.processes.prompts import code, codes
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.fakes.behaviours import Behaviour, lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import assert_sound, chat_of, revisions, run
from tests.support.invariants import check_all

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes, pytest.mark.exhaustive]


@contextmanager
def folding_process(chat: Chat, upstream: FakeUpstream, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that folds `chat` in the test database."""
    command = [sys.executable, "manage.py", "resummarize", str(chat.pk), "--sync", *options]
    with subprocess.Popen(command, cwd=django_settings.BASE_DIR, env=_environment(upstream)) as process:
        try:
            yield process
        finally:
            process.kill()


def _environment(upstream: FakeUpstream) -> dict[str, str]:
    database: dict[str, Any] = connection.settings_dict
    url = f"sqlite:///{database['NAME']}"
    if connection.vendor == "postgresql":
        place = f"{database['HOST'] or 'localhost'}:{database['PORT'] or 5432}"
        url = f"postgres://{database['USER']}:{database['PASSWORD']}@{place}/{database['NAME']}"
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "chatmemory.settings",
        "DATABASE_URL": url,
        "OPENAI_API_KEY": "sk-test-canary",
        "OPENAI_BASE_URL": upstream.base_url,
        "LOG_LEVEL": "WARNING",
        "MEMORY_FOLD_BITE_TOKENS": "500",
    }


@pytest.mark.promise("P10")
def test_a_worker_that_is_killed_in_a_call_wastes_the_call_alone(upstream: FakeUpstream) -> None:
    chat = chat_of(12)
    upstream.hold("complete")
    with folding_process(chat, upstream) as process:
        upstream.wait_until(lambda fake: fake.held("complete") == 1)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    upstream.release("complete")
    brief = brief_of(chat)
    assert (brief.attempts, brief.version) == (1, 0)
    assert brief.lease_owner
    assert run(chat).outcome == "idle"
    past = timezone.now() - timedelta(seconds=5)
    ConversationBrief.objects.filter(chat=chat).update(lease_expires_at=past, next_attempt_at=past)
    queued.empty()
    assert sweep().chats_enqueued == 1
    assert run(chat).outcome == "done"
    assert_sound(chat)
    assert brief_of(chat).attempts == 0
    assert brief_of(chat).unfolded_turns == 3


@pytest.mark.promise("P10")
def test_a_rebuild_goes_on_where_its_worker_was_killed(upstream: FakeUpstream, settings: Any) -> None:
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, bite_tokens=500)
    chat = make_chat()
    add_turns(chat, [(f"Note {code(n)}: {lorem(70)}", f"{code(n)}. {lorem(70)}") for n in range(1, 13)])
    request_resummarize(chat, "update")
    run(chat)
    before, calls = brief_of(chat), len(upstream.calls("complete"))
    upstream.script("complete", Behaviour(), Behaviour(), Behaviour(delay=60))
    with folding_process(chat, upstream, "--rebuild") as process:
        upstream.wait_until(lambda fake: len(fake.calls("complete")) == calls + 3)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    brief = brief_of(chat)
    progress = current_progress(brief)
    assert progress is not None
    assert (progress.through_seq, progress.of_seq, progress.turns) == (12, 18, 6)
    assert (brief.requested, brief.version, brief.global_summary) == (
        *("rebuild", before.version),
        before.global_summary,
    )
    past = timezone.now() - timedelta(seconds=5)
    ConversationBrief.objects.filter(chat=chat).update(lease_expires_at=past, next_attempt_at=past)
    assert run(chat).outcome == "done"
    assert len(upstream.calls("complete")) == calls + 4, "only the call that was killed is made again"
    last = revisions(chat)[-1]
    assert (last.kind, last.turns, last.from_seq, last.through_seq) == (RevisionKind.REBUILD, 9, 1, 18)
    assert codes(last.global_summary) == {code(n) for n in range(1, 10)}
    assert_sound(chat)
    check_all()

"""A real process that is killed in the middle of a summarizer's call: counted, found again, nothing lost or doubled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.utils import timezone

from conversations.models import Chat
from memory.models import ConversationBrief
from memory.sweeping import sweep
from tests.factories import brief_of
from tests.fakes.upstream import FakeUpstream
from tests.folding.folds import assert_sound, chat_of, run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@contextmanager
def folding_process(chat: Chat, upstream: FakeUpstream) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own that folds `chat` in the test database."""
    command = [sys.executable, "manage.py", "resummarize", str(chat.pk), "--sync"]
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
    }


def test_a_worker_that_is_killed_in_a_call_wastes_the_call_alone(upstream: FakeUpstream) -> None:
    chat = chat_of(12)
    upstream.hold("complete")
    with folding_process(chat, upstream) as process:
        upstream.wait_until(lambda fake: fake.held("complete") == 1, timeout=30)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    upstream.release("complete")
    brief = brief_of(chat)
    assert (brief.attempts, brief.version) == (1, 0)
    assert brief.lease_owner
    assert run(chat).outcome == "idle"
    past = timezone.now() - timedelta(seconds=5)
    ConversationBrief.objects.filter(chat=chat).update(lease_expires_at=past, next_attempt_at=past)
    assert sweep().chats_enqueued == 1
    assert run(chat).outcome == "done"
    assert_sound(chat)
    assert brief_of(chat).attempts == 0
    assert brief_of(chat).unfolded_turns == 3

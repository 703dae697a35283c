"""A process killed during a summarizer's call: the attempt counts, the chat is found again, nothing lost or doubled."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from conversations.models import Chat
from memory.briefs import unfolded
from memory.folding.rebuild import current_progress
from memory.folding.request import request_resummarize
from memory.models import ConversationBrief, RevisionKind
from memory.worker.sweep import sweep
from tests.processes.prompts import code, codes
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.fakes.behaviours import Behaviour, lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import assert_sound, chat_of, revisions, run
from tests.support.processes import Product

pytestmark = [pytest.mark.processes, pytest.mark.exhaustive]


@pytest.fixture(autouse=True)
def same_upstream(product: Product, fake: FakeUpstream, settings: Any) -> None:
    """This process folds with the same numbers, and with the same summarizer."""
    product.env["MEMORY_FOLD_BITE_TOKENS"] = "500"
    settings.OPENAI_API_KEY, settings.OPENAI_BASE_URL = "sk-test-canary", fake.base_url
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, bite_tokens=500)


def lease_ends(chat: Chat) -> None:
    past = timezone.now() - timedelta(seconds=5)
    ConversationBrief.objects.filter(chat=chat).update(lease_expires_at=past, next_attempt_at=past)


@pytest.mark.promise("P10")
def test_killing_a_worker_wastes_one_call_at_most(product: Product, fake: FakeUpstream) -> None:
    chat = chat_of(12)
    fake.hold("complete")
    process = product.command("resummarize", str(chat.pk), "--sync")
    fake.wait_until(lambda it: it.held("complete") == 1)
    product.kill(process)
    fake.release("complete")
    brief = brief_of(chat)
    assert (brief.attempts, brief.version) == (1, 0)
    assert brief.lease_owner
    assert run(chat).outcome == "idle"
    lease_ends(chat)
    OrmQ.objects.all().delete()
    assert sweep().chats_enqueued == 1
    assert run(chat).outcome == "done"
    assert_sound(chat)
    assert brief_of(chat).attempts == 0
    assert unfolded(brief_of(chat)).turns == 3


@pytest.mark.promise("P10")
def test_a_rebuild_resumes_after_a_kill(product: Product, fake: FakeUpstream) -> None:
    chat = make_chat()
    add_turns(chat, [(f"Note {code(n)}: {lorem(70)}", f"{code(n)}. {lorem(70)}") for n in range(1, 13)])
    request_resummarize(chat, "update")
    run(chat)
    before, calls = brief_of(chat), len(fake.calls("complete"))
    fake.script("complete", Behaviour(), Behaviour(), Behaviour(delay=60))
    process = product.command("resummarize", str(chat.pk), "--sync", "--rebuild")
    fake.wait_until(lambda it: len(it.calls("complete")) == calls + 3)
    product.kill(process)
    brief = brief_of(chat)
    progress = current_progress(brief)
    assert progress is not None
    assert (progress.through_seq, progress.of_seq, progress.turns) == (12, 18, 6)
    assert (brief.requested, brief.version) == ("rebuild", before.version)
    assert brief.global_summary == before.global_summary
    lease_ends(chat)
    assert run(chat).outcome == "done"
    assert len(fake.calls("complete")) == calls + 4, "only the call that was killed is made again"
    last = revisions(chat)[-1]
    assert (last.kind, last.turns, last.from_seq, last.through_seq) == (RevisionKind.REBUILD, 9, 1, 18)
    assert codes(last.global_summary) == {code(n) for n in range(1, 10)}
    assert_sound(chat)

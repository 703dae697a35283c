"""After any bad answer of a summarizer, memory is kept, the next prompt is complete, and folding goes on.

Under every policy. The answers arrive over HTTP, through the real client; good answers are tested with each policy.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from conversations.models import Chat
from memory.models import ConversationBrief, SummaryRevision
from memory.policies import POLICIES
from tests.support.factories import brief_of
from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import assert_whole, run_fold, waiting_chat

pytestmark = [pytest.mark.usefixtures("sound"), pytest.mark.slow]

MEGABYTE = 1024 * 1024
ANSWERS = {
    "prose": Behaviour(says="prose"),
    "wrong types": Behaviour(says="wrong_types"),
    "half an object": Behaviour(says="half"),
    "20 MB": Behaviour(says="vast", size=20 * MEGABYTE),
    "5 MB": Behaviour(says="vast", size=5 * MEGABYTE),
    "nothing": Behaviour("empty"),
    "cut off": Behaviour("incomplete"),
    "refused": Behaviour("refused", text="No."),
    "refused in words": Behaviour(text="I'm sorry, but I can't help with that."),
    "a web page": Behaviour("html"),
    "a web page in words": Behaviour(text="<html><body><h1>502 Bad Gateway</h1></body></html>"),
}
READS_PROSE = {"chunked", "interval"}
TAKEN = {
    "prose": READS_PROSE,
    "wrong types": {*READS_PROSE, "progressive"},
    "half an object": READS_PROSE,
    "5 MB": READS_PROSE,
}
"""For each answer, the policies that fold in spite of it: they want prose or can use it, and clip what is too long."""


@pytest.fixture(autouse=True)
def usual(settings: Any) -> None:
    """The default limits: each policy folds the turns beyond its own window."""
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 6000
    settings.MEMORY_FOLD_BITE_TOKENS = 6000
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 3000


@pytest.fixture
def fake(upstream: FakeUpstream) -> Iterator[FakeUpstream]:
    yield upstream
    assert upstream.faults == []


def remembered(chat: Chat) -> list[Any]:
    """Everything that is stored of a chat's memory, column by column."""
    columns = ("global_summary", "state", "version", "head", "folded_through_seq", "token_count", "policy")
    briefs = ConversationBrief.objects.filter(chat=chat).values_list(*columns)
    return [*briefs, *SummaryRevision.objects.filter(chat=chat).order_by("version").values_list()]


@pytest.mark.promise("P9")
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_bad_answer(policy: str, answer: str, fake: FakeUpstream) -> None:
    chat = waiting_chat(policy)
    before = remembered(chat)
    fake.behave(ANSWERS[answer], lane="complete")
    report = run_fold(chat)

    brief = brief_of(chat)
    if policy in TAKEN.get(answer, ()):
        assert (report.outcome, brief.last_error, brief.degraded) == ("done", None, False)
        assert brief.token_count < 1500
    else:
        assert report.outcome == "waiting"
        assert remembered(chat) == before
        assert brief.last_error is not None
        assert brief.last_error["code"] == report.error
        assert_is_a_sentence(brief.last_error["message"])
    assert_whole(chat)


def assert_is_a_sentence(text: str) -> None:
    """Assert that `text` is a sentence: no text of the upstream, and no code names except settings."""
    assert text[0].isupper()
    assert text.endswith(".")
    assert len(text.split()) >= 4
    assert "_" not in re.sub(r"\bMEMORY_[A-Z_]+\b", "", text)
    assert "<" not in text

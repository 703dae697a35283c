"""The main job with real processes: a chat outgrows its budget, is folded in the background, and forgets nothing."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import pytest

from chatmemory.text.markers import LINES_HEADING, RECALL_HEADING, SUMMARY_HEADING
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from conversations.models import Message
from memory.models import ContextRecord, SummaryRevision
from tests.processes.prompts import code, codes
from tests.processes.talking import LOW, MARKERS, QUOTED, question, settled, talk
from tests.support.fakes.connection import Request
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Event
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = pytest.mark.processes

EVENTS = {"message.created", "content.delta", "message.completed"}
WINDOW = 3


@dataclass(frozen=True)
class Seen:
    """What one prompt shows of memory, by its headings, as a model sees it, and not by what the server says it sent."""

    question: str
    summary: str
    lines: str
    verbatim: list[tuple[str, str]]
    """(role, text) of each message."""
    tokens: int
    """Tokens of memory, including the overhead of its messages."""

    @classmethod
    def of(cls, request: Request) -> Seen:
        """Parse a streamed request. The question comes last; turns have no sources here."""
        *memory, (role, question) = request.said
        assert role == "user"
        summaries = [text for _, text in memory if text.startswith(SUMMARY_HEADING)]
        lines = [text for _, text in memory if text.startswith(LINES_HEADING)]
        assert len(summaries) <= 1, "two summaries in one prompt"
        assert len(lines) <= 1, "two blocks of lines in one prompt"
        headed = (SUMMARY_HEADING, LINES_HEADING, RECALL_HEADING)
        verbatim = [(role, text) for role, text in memory if not text.startswith(headed)]
        tokens = sum(count_tokens(text) + MESSAGE_OVERHEAD for _, text in memory)
        return cls(question, "".join(summaries), "".join(lines), verbatim, tokens)


@pytest.mark.promise("P11")
@pytest.mark.parametrize(
    ("numbers", "turns", "folds"),
    [({}, 40, 1), pytest.param(LOW, 30, 3, marks=pytest.mark.slow)],
    ids=["defaults", "low"],
)
def test_nothing_is_forgotten(
    product: Product, fake: FakeUpstream, numbers: dict[str, str], turns: int, folds: int
) -> None:
    # The window gets the whole budget, as in the seed: shares of the low one would be too small.
    product.env |= {**numbers, "MEMORY_WINDOW_SHARE": "1", "MEMORY_RECALL": "off"} if numbers else {}
    product.worker()
    product.server()
    chat_id, heard = talk(product.client(), range(turns), patient=True)
    wait_for(lambda: settled(chat_id), "the last fold")

    budget = int(numbers.get("MEMORY_PROMPT_TOKEN_BUDGET", 3000))
    prompts = [Seen.of(request) for request in fake.calls("stream")]
    assert len(prompts) == turns
    texts = list(Message.objects.filter(chat=chat_id).order_by("seq").values_list("role", "content"))
    for number, prompt in enumerate(prompts):
        assert prompt.question == question(number)
        assert prompt.tokens <= budget
        in_summary, in_lines, verbatim = map(codes, (prompt.summary, prompt.lines, f"{prompt.verbatim}"))
        assert in_summary | in_lines | verbatim == {code(earlier) for earlier in range(number)}
        assert len(in_summary) + len(in_lines) + len(verbatim) == number, "a turn is there twice"
        window = texts[max(0, 2 * (number - WINDOW)) : 2 * number]
        assert list(prompt.verbatim[len(prompt.verbatim) - len(window) :]) == window
    assert not ContextRecord.objects.exclude(unrepresented=0).exists()

    assert SummaryRevision.objects.filter(chat=chat_id).count() >= folds
    _the_input_is_to_the_letter(chat_id, fake)
    _it_never_shows(chat_id, heard)


def _the_input_is_to_the_letter(chat_id: UUID, fake: FakeUpstream) -> None:
    asked = [request.said for request in fake.calls("complete")]
    revisions = list(SummaryRevision.objects.filter(chat=chat_id).order_by("version"))
    before = ""
    expected = []
    for revision in revisions:
        expected.append([("user", expected_input(chat_id, before, revision))])
        before = revision.global_summary
    assert asked == expected
    assert any(QUOTED in said[0][1] for said in asked)
    assert all("orders" in request.instructions for request in fake.calls("complete"))


def expected_input(chat_id: UUID, existing: str, revision: SummaryRevision) -> str:
    """Return the summarizer's input that `revision` requires, written out here from seed 000, section 5.2.4."""
    span = Message.objects.filter(chat=chat_id, seq__range=(revision.from_seq, revision.through_seq))
    said = [text.replace(MARKERS, QUOTED) for text in span.order_by("seq").values_list("content", flat=True)]
    pairs = zip(said[::2], said[1::2], strict=True)
    turns = [f"Turn {at}:\nUser: {user}\nAssistant: {reply}" for at, (user, reply) in enumerate(pairs, 1)]
    return (
        f"=== EXISTING_SUMMARY ===\n{existing or 'NONE'}\n=== END_EXISTING_SUMMARY ===\n"
        "\n"
        "=== NEW_TURNS ===\n" + "\n\n".join(turns) + "\n=== END_NEW_TURNS ==="
    )


def _it_never_shows(chat_id: UUID, heard: list[Event]) -> None:
    assert {event.name for event in heard} == EVENTS
    summaries = SummaryRevision.objects.filter(chat=chat_id).values_list("global_summary", flat=True)
    streams = "\n".join(str(event.data) for event in heard)
    assert all(summary[:20] not in streams for summary in summaries)

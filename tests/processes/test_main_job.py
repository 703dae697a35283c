"""The main job with real processes: a chat outgrows its budget, is folded in the background, and forgets nothing."""

from __future__ import annotations

from uuid import UUID

import pytest

from conversations.models import Message
from memory.models import ContextRecord, SummaryRevision
from tests.processes.prompts import code, seen
from tests.processes.talking import LOW, MARKERS, QUOTED, question, settled, talk
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Event
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = pytest.mark.processes

EVENTS = {"message.created", "content.delta", "message.completed"}
WINDOW = 3


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
    prompts = [seen(request) for request in fake.calls("stream")]
    assert len(prompts) == turns
    texts = list(Message.objects.filter(chat=chat_id).order_by("seq").values_list("role", "content"))
    for number, prompt in enumerate(prompts):
        assert prompt.question == question(number)
        assert prompt.tokens <= budget
        in_summary, in_lines, verbatim = prompt.places
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


@pytest.mark.slow
def test_no_reply_waits_for_a_summary(product: Product, fake: FakeUpstream) -> None:
    fake.hold("complete")
    product.worker()
    product.server()
    client = product.client()
    chat_id, _ = talk(client, range(32))
    fake.wait_until(lambda it: it.held("complete") == 1)

    talk(client, range(32, 60), chat_id)

    assert fake.held("complete") == 1
    assert not SummaryRevision.objects.exists()
    prompts = [seen(request) for request in fake.calls("stream")]
    assert all(prompt.tokens <= 3000 for prompt in prompts)
    for number, prompt in enumerate(prompts):
        shown = set.union(*prompt.places)
        record = ContextRecord.objects.get(reply__chat=chat_id, reply__seq=2 * number + 2)
        assert len(shown) + record.unrepresented == number

    fake.release("complete")
    wait_for(lambda: settled(chat_id), "the folds that were held")
    assert SummaryRevision.objects.filter(chat=chat_id).exists()
    talk(client, [60], chat_id)
    assert set.union(*seen(fake.calls("stream")[-1]).places) == {code(number) for number in range(60)}

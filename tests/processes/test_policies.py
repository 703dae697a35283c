"""One chat per policy in one product: 120 turns each over HTTP, 30 of them with a summarizer that does not answer.

Prompts are checked as the fake upstream received them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from django.db import connection

from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from conversations.models import Message
from memory.models import ContextRecord, ConversationBrief, SummaryRevision
from memory.policies import POLICIES
from tests.processes.prompts import code, codes
from tests.processes.talking import question, settled, talk
from tests.support.fakes.connection import Request
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, Event
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

STATE = {
    "chunked": r"BACKGROUND – PRIOR CONVERSATION SUMMARY ",
    "progressive": r"\[IMPORTANT DATA FROM PREVIOUS CONVERSATIONS\]|\[CONVERSATION SUMMARY\]",
    "card": r"Conversation context: |Previous response outline: ",
    "hierarchical": r"FACTS – |BACKGROUND – ",
    "interval": r"I've summarized our previous exchanges for context: ",
}
"""How the messages begin that have a policy's memory. `services/test_frozen_prompts` holds their words."""

LINES = "EARLIER TURNS, ONE LINE EACH"

Chats = dict[str, tuple[Client, UUID]]


@pytest.fixture
def chats(product: Product) -> Callable[[], Chats]:
    """Start server and worker, and make a chat for each policy by its first turn, each with its own client."""

    def make() -> Chats:
        product.worker()
        product.server()
        wait_for(lambda: product.logged("swept"), "a worker at work")
        made = {}
        for policy in POLICIES:
            client = product.client(policy)
            body = {"message": question(0), "policy": policy}
            first, *_ = client.events("POST", "message/first", json=body)
            made[policy] = client, UUID(first.data["chat_id"])
        return made

    return make


def say(chats: Chats, numbers: Sequence[int], *, patient: bool = False) -> list[Event]:
    """Send these turns in all chats at once, each in a thread; return all events."""

    def one(client: Client, chat_id: UUID) -> list[Event]:
        try:
            return talk(client, numbers, chat_id, patient=patient)[1]
        finally:
            connection.close()

    with ThreadPoolExecutor(len(chats)) as threads:
        heard = list(threads.map(one, *zip(*chats.values(), strict=True)))
    return [event for events in heard for event in events]


def of_chat(requests: Sequence[Request], chat_id: UUID) -> list[Request]:
    return [request for request in requests if request.body["prompt_cache_key"] == str(chat_id)]


def assert_prompts(fake: FakeUpstream, policy: str, chat_id: UUID, budget: int) -> Iterator[int]:
    """Check every prompt of a chat against the promises; yield how many turns each left out."""
    records = ContextRecord.objects.filter(reply__chat=chat_id).order_by("reply__seq")
    folds = {fold.version: fold for fold in SummaryRevision.objects.filter(chat=chat_id)}
    prompts = of_chat(fake.calls("stream"), chat_id)
    for number, (request, record) in enumerate(zip(prompts, records, strict=True)):
        *memory, (role, question) = request.said
        assert role == "user"
        assert code(number) in question
        assert sum(count_tokens(text) + MESSAGE_OVERHEAD for _, text in memory) <= budget
        assert not codes(request.instructions), "what people say stands in the system role"
        fold = folds.get(record.revision)
        since = {code(at) for at in range(fold.through_seq // 2 if fold else 0, number)}
        # The state shows no turns, but a card may name something from a turn not folded yet.
        state = [text for _, text in memory if re.match(STATE[policy], text)]
        assert bool(state) >= bool(fold)
        shown = codes("\n".join(text for _, text in memory if text not in state))
        assert len(since - shown) == record.unrepresented, f"{policy}, turn {number}"
        assert sum(text.startswith(LINES) for _, text in memory) <= 1
        yield record.unrepresented


def assert_summarizer_was_shown(fake: FakeUpstream, policy: str, chat_id: UUID, since: int = 0) -> None:
    """Assert that every folded turn was new to the summarizer in a call from `since` on. Cards need none."""
    brief = ConversationBrief.objects.get(pk=chat_id)
    asked = of_chat(fake.calls("complete")[since:], chat_id)
    texts = (request.said[0][1] for request in asked)
    new = codes("\n".join(text.partition("=== NEW_TURNS ===")[2] or text for text in texts))
    assert new >= {code(number) for number in range(brief.folded_through_seq // 2)}, policy


def assert_never_heard(heard: Sequence[Event]) -> None:
    """Assert that no part of memory is in any stream, or in the stored messages."""
    assert {event.name for event in heard} == {"message.created", "content.delta", "message.completed"}
    said = "".join(str(event.data.get("delta", "")) for event in heard)
    assert "MEMORY_CARD" not in said
    assert '"goal"' not in said
    assert not Message.objects.filter(content__icontains="<memory").exists()


def test_120_turns_under_each_policy(
    product: Product, fake: FakeUpstream, chats: Callable[[], Chats]
) -> None:
    """90 of them at the pace of people; then 30 while the summarizer does not answer, and no reply waits for it."""
    made = chats()
    heard = say(made, range(1, 90), patient=True)
    for policy, (_, chat_id) in made.items():
        assert SummaryRevision.objects.filter(chat=chat_id).count() >= 3, policy

    wait_for(lambda: all(settled(chat_id) for _, chat_id in made.values()), "a memory at rest")
    before = {chat_id: _folded_by_summarizer(chat_id) for _, chat_id in made.values()}
    fake.hold("complete")
    heard += say(made, range(90, 120))
    assert fake.held("complete") >= 1
    assert before == {chat_id: _folded_by_summarizer(chat_id) for _, chat_id in made.values()}
    fake.release("complete")

    wait_for(lambda: all(settled(chat_id) for _, chat_id in made.values()), "the folds that were held")
    for policy, (_, chat_id) in made.items():
        left_out = list(assert_prompts(fake, policy, chat_id, budget=3000))
        assert len(left_out) == 120
        assert not any(left_out[:90]), f"{policy} left turns out"
        if policy != "card":
            assert_summarizer_was_shown(fake, policy, chat_id)
    assert_never_heard(heard)


def _folded_by_summarizer(chat_id: UUID) -> int:
    return SummaryRevision.objects.filter(chat=chat_id).exclude(model="gpt-5-mini").count()

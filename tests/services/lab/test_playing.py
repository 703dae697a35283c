"""Conversations played through the real engine: the measurements equal what the tables hold."""

from dataclasses import replace
from typing import Any

import pytest

from chatmemory.llm import registry
from chatmemory.llm.protocol import PromptMessage, ReplyError, ToolCall, UpstreamError, Usage
from chatmemory.text.tokens import count_tokens
from conversations.models import Chat, Message
from memory.lab.conversation import Conversation, Exchange, KnownFact, Round
from memory.lab.measures import Run
from memory.lab.replay import play
from memory.models import ContextRecord, SummaryRevision
from memory.policies import POLICIES
from tests.support import invariants
from tests.support.fakes.scripted import KeepingModel, ScriptedModel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

TURNS = 40
TALK = Conversation(
    "codes",
    "Be brief.",
    tuple(
        Exchange(
            f"Please remember that order {number} has the code T{number} and goes to Lima on {number} May 2026.",
            f"I will remember that the code T{number} goes to Lima; the parcel weighs {number + 10} kg.",
        )
        for number in range(1, TURNS + 1)
    ),
    (KnownFact("T1", ("T1",), (0,)), KnownFact("T30", ("t30",), (29,))),
)


@pytest.fixture(autouse=True)
def small(settings: Any) -> None:
    """A threshold that a few turns reach."""
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 600
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 1200


def summarized_by(model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_chat_client", lambda *_: model)
    monkeypatch.setattr(registry, "is_offline", lambda: False)


def calls_of(run: Run) -> list[Usage]:
    return [call for turn in run.turns for call in turn.calls]


def tool_exchange(number: int) -> Exchange:
    """A question about an order; every second one is answered with the help of a tool."""
    call = ToolCall(f"call_{number}", "find", f'{{"order": {number}}}')
    output = f'{{"tracking": "TR-{4000 + number}", "note": "{"so it says " * 20}"}}'
    result = PromptMessage("tool", output, call_id=call.id)
    rounds = (Round(PromptMessage("assistant", "", (call,)), [result]),)
    return Exchange(f"Where is order {number}?", "It is on its way.", rounds=rounds if number % 2 else ())


def test_turns_with_tools_are_played_through_them() -> None:
    exchanges = tuple(map(tool_exchange, range(1, TURNS + 1)))
    run = play(Conversation("tools", "", exchanges), "chunked")
    invariants.check_all()
    chat = Chat.objects.get()
    roles = list(chat.messages.filter(seq__lte=7).order_by("seq").values_list("role", flat=True))
    assert roles == ["user", "assistant", "tool_call", "tool", "assistant", "user", "assistant"]
    assert chat.open_seq == 0
    first = ContextRecord.objects.get(reply__seq=2)
    assert run.turns[0].prompt == sum(section["tokens"] for section in first.sections)
    assert all(turn.memory <= turn.budget for turn in run.turns)


@pytest.mark.parametrize("policy", POLICIES)
def test_lab_measures_equal_stored_figures(policy: str) -> None:
    steps: list[str] = []
    run = play(TALK, policy, lambda: steps.append("turn"))
    invariants.check_all()
    assert len(steps) == TURNS
    records = ContextRecord.objects.order_by("reply__seq")
    assert [turn.memory for turn in run.turns] == [record.tokens for record in records]
    assert [turn.unrepresented for turn in run.turns] == [record.unrepresented for record in records]
    assert all(turn.memory <= turn.budget == 1200 for turn in run.turns)
    assert all(turn.prefix <= turn.prompt for turn in run.turns)
    assert [turn.before for turn in run.turns] == list(range(TURNS))
    called = SummaryRevision.objects.exclude(model="").exclude(input_tokens=0)
    assert sum(call.input_tokens for call in calls_of(run)) == sum(one.input_tokens for one in called)
    chat = Chat.objects.get()
    said = [text for one in TALK.exchanges for text in (one.question, one.reply)]
    assert list(Message.objects.order_by("seq").values_list("content", flat=True)) == said
    assert chat.instructions == TALK.instructions


def test_a_reply_that_was_cut_off_stays_so() -> None:
    play(Conversation("cut", "", (Exchange("Why?", "Becau", cut_off=True),)), "chunked")
    assert list(Message.objects.values_list("status", flat=True)) == ["complete", "incomplete"]


def test_lab_counts_summarizer_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    model = KeepingModel()
    summarized_by(model, monkeypatch)
    run = play(TALK, "chunked")
    assert len(calls_of(run)) == len(model.prompts) > 1
    assert sum(turn.folds for turn in run.turns) == SummaryRevision.objects.count()


def test_lab_looks_up_questions_in_memory() -> None:
    asks = Exchange("Where does order T1 go?", "To Lima.")
    annotated = play(replace(TALK, exchanges=(*TALK.exchanges[:3], asks)), "chunked")
    assert annotated.named == annotated.held > 0
    by_its_spans = play(replace(TALK, exchanges=(*TALK.exchanges[:3], asks), facts=()), "chunked")
    assert by_its_spans.named > annotated.named


def test_a_summarizer_that_fails_makes_folds_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = ScriptedModel(*[UpstreamError(ReplyError("upstream_error", "It is down."))] * TURNS)
    summarized_by(failing, monkeypatch)
    run = play(TALK, "chunked")
    assert calls_of(run)
    assert all(call.output_tokens == 0 < call.input_tokens for call in calls_of(run))
    assert all(turn.memory <= turn.budget for turn in run.turns)
    # Turns that no longer fit are counted, not hidden.
    assert run.turns[-1].unrepresented > 0
    assert run.turns[-1].covered < 1


def test_lab_reply_carries_card_under_card_policy() -> None:
    run = play(TALK, "card")
    assert set(ContextRecord.objects.values_list("card", flat=True)) == {"kept"}
    block = len("<MEMORY_CARD></MEMORY_CARD>") // 4
    for turn, exchange in zip(run.turns, TALK.exchanges, strict=True):
        assert count_tokens(exchange.reply) + block < turn.reply <= count_tokens(exchange.reply) + 200

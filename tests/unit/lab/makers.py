"""Small conversations and runs, made by hand."""

from __future__ import annotations

from decimal import Decimal

from chatmemory.llm.protocol import Price, Variant
from memory.lab.conversation import Conversation, Exchange, KnownFact
from memory.lab.measures import Run, SummarizerCall, TurnMeasure
from memory.lab.outcome import Models, Outcome
from memory.lab.retention import Kept, NamedFactTracker, RetentionTracker

PRICE = Price(input=Decimal(1), cached=Decimal("0.1"), output=Decimal(10))
MODELS = Models(Variant("arco", "big", price=PRICE), Variant("summarizer", "small", price=PRICE), False)
TALK = Conversation(
    "A talk",
    "Be brief.",
    (Exchange("My code is QX7.", "Noted, QX7."), Exchange("And now?", "Nothing.")),
    (KnownFact("QX7", ("QX7",), (0,)),),
)


def turn(memory: int = 0, prompt: int = 100, prefix: int = 0, **more: int | bool) -> TurnMeasure:
    values = {"budget": 3000, "reply": 10, "before": 0, "unrepresented": 0, **more}
    return TurnMeasure(memory=memory, prompt=prompt, prefix=prefix, **values)  # type: ignore[arg-type]  # by name


def nothing_kept() -> Kept:
    return RetentionTracker().tallies


def run_of(
    *turns: TurnMeasure,
    calls: tuple[SummarizerCall, ...] = (),
    policy: str = "chunked",
    spans: Kept | None = None,
) -> Run:
    return Run(
        "A talk", policy, turns, calls, spans or nothing_kept(), nothing_kept(), NamedFactTracker().tallies
    )


def outcome_of(*runs: Run, models: Models = MODELS, talk: Conversation = TALK) -> Outcome:
    return Outcome((talk,), {run.policy: [run] for run in runs}, models)

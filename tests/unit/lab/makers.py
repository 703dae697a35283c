"""Small conversations and runs, made by hand."""

from decimal import Decimal
from typing import Any

from chatmemory.llm.protocol import Price, Variant
from memory.lab.conversation import Conversation, Exchange, KnownFact
from memory.lab.measures import Outcome, Run, TurnMeasure

PRICE = Price(input=Decimal(1), cached=Decimal("0.1"), output=Decimal(10))
REPLIES = Variant("arco", "big", price=PRICE)
SUMMARIZER = Variant("summarizer", "small", price=PRICE)
UNPRICED = Variant("arco", "mystery")
TALK = Conversation(
    "A talk",
    "Be brief.",
    (Exchange("My code is QX7.", "Noted, QX7."), Exchange("And now?", "Nothing.")),
    (KnownFact("QX7", ("QX7",), (0,)),),
)


def turn(memory: int = 0, prompt: int = 100, prefix: int = 0, **more: Any) -> TurnMeasure:
    values = {"budget": 3000, "reply": 10, "before": 0, "unrepresented": 0, **more}
    return TurnMeasure(memory=memory, prompt=prompt, prefix=prefix, **values)


def run_of(*turns: TurnMeasure, policy: str = "chunked", named: int = 0, held: int = 0) -> Run:
    return Run("A talk", policy, turns, named, held)


def outcome_of(
    *runs: Run, replies: Variant = REPLIES, summarizer: Variant = SUMMARIZER, is_offline: bool = False
) -> Outcome:
    return Outcome((TALK,), {run.policy: [run] for run in runs}, replies, summarizer, is_offline)

"""What was measured on one talk under one policy, as values, and what many of them come to. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from memory.lab.billing import Request
from memory.lab.keeping import Kept, kept_from_json, kept_to_json, summed


@dataclass(frozen=True, slots=True)
class TurnMeasure:
    """One prompt, in tokens, and what became of memory after its reply."""

    memory: int
    """Tokens of memory in the prompt, as rendered."""
    budget: int
    prompt: int
    """Tokens of the whole prompt: instructions and question, too."""
    prefix: int
    """Of these, the tokens at its beginning that the prompt before began with."""
    reply: int
    """Output tokens: the recorded reply, and the card it carries where the policy wants one."""
    before: int
    """Finished turns when the prompt was made."""
    unrepresented: int
    """Of these, the ones that neither state, text nor line stood for."""
    folds: int = 0
    """Revisions that the summarizer made after the reply."""
    waited: bool = False
    """The chat was still due when that was over."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the summarizer, after turn `turn` (from 0). Tokens are the summarizer's word, else counted here."""

    turn: int
    input: int
    output: int


@dataclass(frozen=True, slots=True)
class Run:
    """One talk under one policy."""

    talk: str
    policy: str
    turns: tuple[TurnMeasure, ...]
    calls: tuple[Call, ...]
    spans: Kept
    facts: Kept

    @property
    def requests(self) -> list[Request]:
        """The prompts as they would be billed."""
        return [Request(turn.prompt, turn.prefix, turn.reply) for turn in self.turns]

    def to_json(self) -> dict[str, Any]:
        """The run as JSON holds it."""
        return {
            "talk": self.talk,
            "policy": self.policy,
            "turns": [asdict(turn) for turn in self.turns],
            "calls": [asdict(call) for call in self.calls],
            "spans": kept_to_json(self.spans),
            "facts": kept_to_json(self.facts),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Run:
        """The run that `to_json` wrote."""
        return cls(
            talk=data["talk"],
            policy=data["policy"],
            turns=tuple(TurnMeasure(**turn) for turn in data["turns"]),
            calls=tuple(Call(**call) for call in data["calls"]),
            spans=kept_from_json(data["spans"]),
            facts=kept_from_json(data["facts"]),
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """What several runs under one policy come to. Shares are 0 to 1; None where there was nothing to share."""

    policy: str
    turns: int
    memory_mean: float
    memory_p95: int
    memory_max: int
    over_budget: float
    cacheable: float
    calls: int
    input_tokens: int
    output_tokens: int
    folds: int
    waited: int
    coverage: float
    coverage_min: float
    spans: Kept
    facts: Kept


def summary_of(policy: str, runs: Sequence[Run]) -> Summary:
    """All prompts of `runs` together, whichever talk they are of."""
    turns = [turn for run in runs for turn in run.turns]
    calls = [call for run in runs for call in run.calls]
    memory = sorted(turn.memory for turn in turns)
    covered = [_covered(turn) for turn in turns]
    return Summary(
        policy=policy,
        turns=len(turns),
        memory_mean=_mean(memory),
        memory_p95=percentile(memory, 0.95),
        memory_max=max(memory, default=0),
        over_budget=_mean([turn.memory > turn.budget for turn in turns]),
        cacheable=_share(sum(turn.prefix for turn in turns), sum(turn.prompt for turn in turns)),
        calls=len(calls),
        input_tokens=sum(call.input for call in calls),
        output_tokens=sum(call.output for call in calls),
        folds=sum(turn.folds > 0 for turn in turns),
        waited=sum(turn.waited for turn in turns),
        coverage=_mean(covered, empty=1.0),
        coverage_min=min(covered, default=1.0),
        spans=summed(run.spans for run in runs),
        facts=summed(run.facts for run in runs),
    )


def percentile(ordered: Sequence[int], share: float) -> int:
    """The smallest of the `ordered` values that at least `share` of them do not exceed; 0 if there is none."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else 0


def _covered(turn: TurnMeasure) -> float:
    return 1 - turn.unrepresented / turn.before if turn.before else 1.0


def _mean(values: Iterable[float], *, empty: float = 0.0) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else empty


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0

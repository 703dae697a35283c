"""Measures of one conversation under one policy, as values, and summaries of many of them. Pure.

A prompt is measured by its tokens, and by how much of its beginning it shares with another.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chatmemory.llm.protocol import Prompt
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.lab.billing import BilledRequest
from memory.lab.retention import Kept, kept_from_json, kept_to_json, summed


def prompt_tokens(prompt: Prompt) -> int:
    """Tokens of everything that is sent, including instructions."""
    return sum(count_tokens(content) + MESSAGE_OVERHEAD for _, content in _parts(prompt))


def shared_prefix(earlier: Prompt, later: Prompt) -> int:
    """Tokens at the beginning of `later` that are also the beginning of `earlier`.

    Of the first message that differs, the tokens of the common beginning of its text count.
    """
    shared = 0
    for one, other in zip(_parts(earlier), _parts(later), strict=False):
        if one == other:
            shared += count_tokens(one[1]) + MESSAGE_OVERHEAD
            continue
        if one[0] == other[0]:
            shared += count_tokens(_common_start(one[1], other[1]))
        break
    return shared


def memory_text(prompt: Prompt) -> str:
    """The text of memory in a prompt, provided that only the question follows it."""
    return "\n".join(message.text for message in prompt.messages[:-1])


def _common_start(one: str, other: str) -> str:
    pairs = enumerate(zip(one, other, strict=False))
    return one[: next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))]


def _parts(prompt: Prompt) -> list[tuple[str, str]]:
    """Role and text of each message in the order of sending; a tool comes before them."""
    tool = (
        [("tool", json.dumps([prompt.tool.name, prompt.tool.description, dict(prompt.tool.parameters)]))]
        if prompt.tool
        else []
    )
    system = [("system", prompt.instructions)] if prompt.instructions else []
    return [*tool, *system, *((message.role, message.text) for message in prompt.messages)]


@dataclass(frozen=True, slots=True)
class TurnMeasure:
    """One prompt, in tokens, and what happened to memory after its reply."""

    memory: int
    """Tokens of memory in the prompt, as rendered."""
    budget: int
    prompt: int
    """Tokens of the whole prompt, including instructions and question."""
    prefix: int
    """Tokens at the beginning of the prompt that an earlier prompt also began with."""
    reply: int
    """Output tokens: the recorded reply, and the card it carries if the policy wants one."""
    before: int
    """Finished turns when the prompt was made."""
    unrepresented: int
    """Those of them that are in neither state, text nor line."""
    folds: int = 0
    """Revisions that the summarizer made after the reply."""
    waited: bool = False
    """The chat was still due after those folds."""


@dataclass(frozen=True, slots=True)
class SummarizerCall:
    """A call of the summarizer, after turn `turn` (from 0). Tokens are as it reported them, else counted here."""

    turn: int
    input: int
    output: int


@dataclass(frozen=True, slots=True)
class Run:
    """One talk under one policy."""

    talk: str
    policy: str
    turns: tuple[TurnMeasure, ...]
    calls: tuple[SummarizerCall, ...]
    spans: Kept
    facts: Kept
    named: Kept
    """Retention of facts that a later question names, by how long ago they were said."""

    @property
    def requests(self) -> list[BilledRequest]:
        """The prompts as they would be billed."""
        return [BilledRequest(turn.prompt, turn.prefix, turn.reply) for turn in self.turns]

    def to_json(self) -> dict[str, Any]:
        """The run as JSON."""
        return {
            "talk": self.talk,
            "policy": self.policy,
            "turns": [asdict(turn) for turn in self.turns],
            "calls": [asdict(call) for call in self.calls],
            "spans": kept_to_json(self.spans),
            "facts": kept_to_json(self.facts),
            "named": kept_to_json(self.named),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Run:
        """The run that `to_json` wrote."""
        return cls(
            talk=data["talk"],
            policy=data["policy"],
            turns=tuple(TurnMeasure(**turn) for turn in data["turns"]),
            calls=tuple(SummarizerCall(**call) for call in data["calls"]),
            spans=kept_from_json(data["spans"]),
            facts=kept_from_json(data["facts"]),
            named=kept_from_json(data["named"]),
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of several runs under one policy. Shares are 0 to 1; None if there was nothing to divide."""

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
    named: Kept


def summary_of(policy: str, runs: Sequence[Run]) -> Summary:
    """Summarize all prompts of `runs` together, regardless of their talk."""
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
        named=summed(run.named for run in runs),
    )


def percentile(ordered: Sequence[int], share: float) -> int:
    """The smallest of the `ordered` values that at least `share` of them do not exceed; 0 if there are none."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else 0


def _covered(turn: TurnMeasure) -> float:
    return 1 - turn.unrepresented / turn.before if turn.before else 1.0


def _mean(values: Iterable[float], *, empty: float = 0.0) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else empty


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0

"""The outcome of running talks under policies: rows to compare, bills, and all of it as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from chatmemory.llm.protocol import Price, Usage, Variant
from memory.lab.billing import Bill, bill_of, chained, everything, with_folds
from memory.lab.conversation import Conversation
from memory.lab.measures import Run, Summary, summary_of
from memory.lab.quality import Quality, quality_of
from memory.lab.retention import kept_to_json


@dataclass(frozen=True, slots=True)
class Models:
    """The models whose prices are used for replies and the summarizer, and whether the built-in one ran."""

    replies: Variant
    summarizer: Variant
    is_offline: bool
    """The built-in model summarized; its calls are billed at the summarizer's price."""


@dataclass(frozen=True, slots=True)
class Row:
    """One policy over all talks."""

    summary: Summary
    bill: Bill


@dataclass(frozen=True, slots=True)
class Outcome:
    """Talks and their runs by policy, in the order of the talks."""

    talks: tuple[Conversation, ...]
    runs: Mapping[str, Sequence[Run]]
    models: Models

    @property
    def rows(self) -> list[Row]:
        """One row per policy."""
        return [self._row(policy, runs) for policy, runs in self.runs.items()]

    @property
    def everything(self) -> Bill:
        """The bill if each question were sent with everything that was said before it."""
        return bill_of((one for talk in self.talks for one in everything(talk)), self.models.replies.price)

    @property
    def chained(self) -> Bill:
        """The bill if each question were sent with `previous_response_id`."""
        return bill_of((one for talk in self.talks for one in chained(talk)), self.models.replies.price)

    @property
    def quality(self) -> list[Quality]:
        """The quality of the built-in summarizer on every talk with annotated facts."""
        return [quality_of(talk) for talk in self.talks if talk.facts]

    def part(self, chosen: Sequence[int]) -> Outcome:
        """The outcome for some of the talks, by their indexes."""
        runs = {policy: [found[at] for at in chosen] for policy, found in self.runs.items()}
        return Outcome(tuple(self.talks[at] for at in chosen), runs, self.models)

    def _row(self, policy: str, runs: Sequence[Run]) -> Row:
        summary = summary_of(policy, runs)
        folds = Usage(summary.input_tokens, 0, summary.output_tokens)
        replies = bill_of((one for run in runs for one in run.requests), self.models.replies.price)
        return Row(summary, with_folds(replies, summary.calls, folds, self.models.summarizer.price))


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Everything that was measured, for machines; `docs/lab.md` documents the keys."""
    return {
        "models": {
            "replies": _model(outcome.models.replies),
            "summarizer": {**_model(outcome.models.summarizer), "built_in": outcome.models.is_offline},
        },
        "talks": [
            {"name": talk.name, "turns": len(talk.exchanges), "facts": len(talk.facts)}
            for talk in outcome.talks
        ],
        "policies": [
            {**_row_json(row), "runs": [run.to_json() for run in outcome.runs[row.summary.policy]]}
            for row in outcome.rows
        ],
        "everything": _bill_json(outcome.everything),
        "previous_response_id": _bill_json(outcome.chained),
        "quality": [asdict(one) for one in outcome.quality],
    }


def _model(variant: Variant) -> dict[str, Any]:
    return {"model": variant.model, "price": _price_json(variant.price)}


def _price_json(price: Price | None) -> dict[str, float] | None:
    return (
        None
        if price is None
        else {"input": float(price.input), "cached": float(price.cached), "output": float(price.output)}
    )


def _row_json(row: Row) -> dict[str, Any]:
    found = row.summary
    return {
        "policy": found.policy,
        "turns": found.turns,
        "memory_tokens": {
            "mean": round(found.memory_mean, 1),
            "p95": found.memory_p95,
            "max": found.memory_max,
        },
        "over_budget": found.over_budget,
        "cacheable": found.cacheable,
        "summarizer": {
            "calls": found.calls,
            "input_tokens": found.input_tokens,
            "output_tokens": found.output_tokens,
        },
        "folds": found.folds,
        "waited": found.waited,
        "coverage": {"mean": found.coverage, "min": found.coverage_min},
        "bill": _bill_json(row.bill),
        "kept": {
            "spans": kept_to_json(found.spans),
            "facts": kept_to_json(found.facts),
            "named": kept_to_json(found.named),
        },
    }


def _bill_json(bill: Bill) -> dict[str, Any]:
    return {
        "input_tokens": bill.requests.input_tokens,
        "cached_tokens": bill.requests.cached_tokens,
        "output_tokens": bill.requests.output_tokens,
        "replies_usd": _usd(bill.replies_usd),
        "folds_usd": _usd(bill.folds_usd),
        "usd": _usd(bill.usd),
    }


def _usd(amount: Decimal | None) -> float | None:
    return None if amount is None else float(round(amount, 9))

"""Measures of conversations under policies, as values: prompts, calls of the summarizer, rows to compare, bills. Pure.

All ways to send a conversation are billed by the same rule, OpenAI's (Cookbook, "Prompt Caching 201", for models
before GPT-5.6): of a prompt of at least 1,024 tokens, the longest prefix that was sent before comes from the cache,
in steps of 128 tokens, at the cached price. Nothing is assumed to leave the cache. One request per turn is billed:
those in which a model calls its tools are the same for all ways.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from os.path import commonprefix
from typing import Any

from chatmemory.llm.protocol import Prompt, Usage, Variant
from chatmemory.text.spans import SpanIndex, spans
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.lab.conversation import Conversation, KnownFact

CACHE_FROM = 1024
CACHE_STEP = 128


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
            shared += count_tokens(commonprefix([one[1], other[1]]))  # noqa: RUF071  # they are no paths
        break
    return shared


def _parts(prompt: Prompt) -> list[tuple[str, str]]:
    system = [("system", prompt.instructions)] if prompt.instructions else []
    return [*system, *((message.role, message.text) for message in prompt.messages)]


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
    """The finished turns that are in neither state, text nor line."""
    folds: int = 0
    """Revisions that the summarizer made after the reply."""
    calls: tuple[Usage, ...] = ()
    """Calls of the summarizer after the reply, failed ones included, with tokens as it reported or as counted here."""

    @property
    def covered(self) -> float:
        """The share of the finished turns that stand in the prompt's state, in a line or verbatim."""
        return 1 - self.unrepresented / self.before if self.before else 1.0


@dataclass(frozen=True, slots=True)
class Run:
    """One talk under one policy."""

    talk: str
    policy: str
    turns: tuple[TurnMeasure, ...]
    named: int
    """How often a question repeated something that was said before."""
    held: int
    """How often the memory in its prompt had it."""


def billed(prompt: int, prefix: int, reply: int) -> Usage:
    """The usage of one request, of which `prefix` tokens were sent before."""
    return Usage(prompt, prefix // CACHE_STEP * CACHE_STEP if prefix >= CACHE_FROM else 0, reply)


def everything(talk: Conversation) -> Iterator[Usage]:
    """Bill each question with everything that was said before it."""
    before, prefix = _sent(talk.instructions), 0
    for exchange in talk.exchanges:
        prompt = before + _sent(exchange.question)
        yield billed(prompt, prefix, count_tokens(exchange.reply))
        # The requests with which the tools answered are in the cache, too.
        prefix = prompt + sum(one.tokens for one in exchange.rounds)
        before = prefix + _sent(exchange.reply)


def _sent(text: str) -> int:
    return count_tokens(text) + MESSAGE_OVERHEAD if text else 0


@dataclass(frozen=True, slots=True)
class Row:
    """One policy over all talks, as `memory.lab.report` explains it. Shares are 0 to 1.

    `usd` is None if a price is unknown, `held` if no question named anything.
    """

    policy: str
    turns: int
    memory_mean: float
    memory_max: int
    over_budget: float
    coverage: float
    cacheable: float
    input_tokens: int
    calls: int
    folds: int
    usd: float | None
    named: int
    held: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Talks and their runs by policy, in the order of the talks."""

    talks: tuple[Conversation, ...]
    runs: Mapping[str, Sequence[Run]]
    replies: Variant
    """The model whose price is used for replies."""
    summarizer: Variant
    is_offline: bool
    """The built-in model summarized; its calls are billed at the summarizer's price."""

    @property
    def rows(self) -> list[Row]:
        return [self._row(policy, runs) for policy, runs in self.runs.items()]

    @property
    def everything_usd(self) -> float | None:
        """The cost of sending each question with everything that was said before it."""
        price = self.replies.price
        if price is None:
            return None
        return sum(float(price.cost(one)) for talk in self.talks for one in everything(talk))

    def costs(self, run: Run) -> list[float] | None:
        """The cost of each turn of a run in USD, replies and summarizer; None if a price is unknown."""
        price, folding = self.replies.price, self.summarizer.price
        if price is None or (folding is None and any(turn.calls for turn in run.turns)):
            return None
        return [
            float(price.cost(billed(turn.prompt, turn.prefix, turn.reply)))
            + sum(float(folding.cost(call)) for call in turn.calls if folding)
            for turn in run.turns
        ]

    def _row(self, policy: str, runs: Sequence[Run]) -> Row:
        turns = [turn for run in runs for turn in run.turns]
        costs = [self.costs(run) for run in runs]
        named, sent = sum(run.named for run in runs), sum(turn.prompt for turn in turns)
        return Row(
            policy=policy,
            turns=len(turns),
            memory_mean=sum(turn.memory for turn in turns) / max(1, len(turns)),
            memory_max=max((turn.memory for turn in turns), default=0),
            over_budget=sum(turn.memory > turn.budget for turn in turns) / max(1, len(turns)),
            coverage=min((turn.covered for turn in turns), default=1.0),
            cacheable=sum(turn.prefix for turn in turns) / max(1, sent),
            input_tokens=sent,
            calls=sum(len(turn.calls) for turn in turns),
            folds=sum(turn.folds > 0 for turn in turns),
            usd=None if None in costs else sum(sum(each) for each in costs if each),
            named=named,
            held=sum(run.held for run in runs) / named if named else None,
        )


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Everything that was measured, as `docs/lab.md` documents it."""
    return {
        "models": {"replies": outcome.replies.model, "summarizer": outcome.summarizer.model},
        "is_offline": outcome.is_offline,
        "talks": [{"name": talk.name, "turns": len(talk.exchanges)} for talk in outcome.talks],
        "everything_usd": outcome.everything_usd,
        "policies": [
            {**asdict(row), "runs": [asdict(run) for run in outcome.runs[row.policy]]} for row in outcome.rows
        ],
    }


# What questions name, and whether memory has it
#
# Followed are the annotated facts of a conversation, or if it has none, the numbers, dates, names and ids said in it. A
# question names such a thing if it repeats it, and the memory of its prompt holds it in any of its forms, as whole
# words ("2011" does not contain "11"); the question itself does not count.


def has(text: SpanIndex, fact: KnownFact) -> bool:
    """Whether `fact` is in `text`, in any of its forms."""
    return any(form in text for form in fact.forms)


def spans_of(*texts: str) -> list[KnownFact]:
    """The numbers, dates, names and ids of `texts`, each once."""
    found = {span.casefold(): span for text in texts for span in spans(text)}
    return [KnownFact(span) for span in found.values()]

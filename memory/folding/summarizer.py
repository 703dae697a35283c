"""Asking a summarizer to fold turns into a state: the calls of one attempt, again if refused, and what came of it.

An answer that is acceptable but has soft faults is requested once more, and the better one is kept.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory import metrics
from chatmemory.database.executors import give_back
from chatmemory.llm import registry
from chatmemory.llm.known_models import output_limit
from chatmemory.llm.offline import counted
from chatmemory.llm.protocol import Completion, Prompt, PromptMessage, UpstreamError, Usage, storable_cost
from chatmemory.llm.tracing import answered, chat_span
from chatmemory.runtime import fault_points
from chatmemory.text.cleaning import disarm, without_invisible
from chatmemory.text.spans import Retained
from conversations.webhooks import outbox
from conversations.webhooks.models import WebhookEventType
from memory import conf
from memory.folding import answer_checks, leases
from memory.folding.answer_checks import Assessment, assess, retry_instructions, source_hash, text_of
from memory.folding.attempts import backoff_seconds
from memory.history.turns import Batch, last_assistant_id
from memory.limits import MemoryLimits
from memory.models import ConversationBrief, RevisionKind
from memory.pins.statements import Statement, split_statements, with_statements
from memory.policies.answers import days_of, prompt_hash
from memory.policies.protocol import Policy, Refusal, State
from memory.usage import daily

logger = logging.getLogger(__name__)

NOTHING_RETAINED = Retained([], [], 1.0)
NO_USAGE = Usage(0, 0, 0)
MAX_FAULTS = 20
"""The most soft faults that a rebuild records; later ones are dropped."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A state, the turns that were folded into it, and what that took."""

    policy: str
    state: State
    through_seq: int = 0
    turns: int = 0
    tokens: int = 0
    last_assistant_id: UUID | None = None
    source_hash: str = ""
    usage: Usage = NO_USAGE
    cost_usd: Decimal | None = Decimal(0)
    """None if any price is unknown."""
    duration_ms: int = 0
    model: str = ""
    prompt_hash: str = ""
    focus: str = ""
    """The chat's option `focus` that it was made with."""
    custom_instructions: bool = False
    """Whether it was made with the operator's instructions."""
    degraded: bool = False
    """The built-in summarizer replaced the upstream, in all or part of it."""
    soft_faults: tuple[dict[str, Any], ...] = ()
    """Defects of the state, which was accepted anyway (`memory.folding.answer_checks`)."""
    retained: Retained = NOTHING_RETAINED
    """Which salient spans of the newest turns the state has."""
    statements: tuple[Statement, ...] = ()
    """Lasting wishes of the user, quoted from the newest turns. Not yet checked against the messages."""


@dataclass(frozen=True, slots=True)
class FoldRequest:
    """Turns to fold, what was folded before, and the policy and limits to use."""

    policy: Policy
    limits: MemoryLimits
    before: Folded
    batch: Batch
    lists_statements: bool = False
    """Whether the summarizer also lists what the user wants from now on, to be pinned."""


class FoldFailed(Exception):
    """The summarizer gave no usable answer. `code` is that of an upstream error or a refusal; the message is ours."""

    def __init__(self, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


def ask_summarizer(folding: FoldRequest, *, chat_id: str, builtin: bool, timeout: float) -> Folded:
    """Return what `folding` results in, by the configured summarizer or the built-in one.

    All calls together take at most `timeout` seconds. Raises `FoldFailed` on a hard fault.
    """
    calls = _Calls(folding, chat_id, builtin, timeout)
    try:
        best = calls.best_answer()
    except UpstreamError as error:
        raise FoldFailed(error.reason.code, str(error), error.reason.retry_after) from error
    except Refusal as refusal:
        raise FoldFailed(refusal.reason, str(refusal)) from refusal
    before, turns, cost = folding.before, folding.batch.turns, calls.cost_usd
    answers = zip(calls.sent, calls.answers, strict=False)
    usages = [before.usage, *(answer.usage or counted(prompt, answer.text) for prompt, answer in answers)]
    return replace(
        before,
        state=best.state,
        through_seq=turns[-1].through_seq,
        turns=before.turns + sum(turn.tokens > 0 for turn in turns),
        tokens=before.tokens + sum(turn.tokens for turn in turns),
        last_assistant_id=last_assistant_id(turns) or before.last_assistant_id,
        source_hash=source_hash(turns, before.source_hash),
        usage=Usage(
            sum(usage.input_tokens for usage in usages),
            sum(usage.cached_tokens for usage in usages),
            sum(usage.output_tokens for usage in usages),
        ),
        cost_usd=None if before.cost_usd is None or cost is None else before.cost_usd + cost,
        duration_ms=before.duration_ms + round((time.monotonic() - calls.started) * 1000),
        model=calls.answers[-1].model if calls.answers else "",
        prompt_hash=prompt_hash(calls.instructions),
        focus=folding.limits.focus if calls.sent else "",
        custom_instructions=bool(calls.sent and folding.limits.summarizer_task),
        degraded=before.degraded or builtin,
        soft_faults=(*before.soft_faults, *best.assessment.to_json())[:MAX_FAULTS],
        retained=best.assessment.new,
        statements=best.statements,
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    """An acceptable state, and how it compares with what it was made from."""

    state: State
    assessment: Assessment
    statements: tuple[Statement, ...] = ()


class _Calls:
    """The calls of one fold: the prompts sent and the answers received."""

    def __init__(self, folding: FoldRequest, chat_id: str, builtin: bool, timeout: float) -> None:
        self.folding, self.chat_id, self.builtin = folding, chat_id, builtin
        self.model = registry.offline_model() if builtin else registry.chat_model(conf.summarizer())
        self.is_free = builtin or registry.is_offline()
        self.started = time.monotonic()
        self.until = self.started + timeout
        self.instructions = ""  # the same for each call: without the days
        self.sent: list[Prompt] = []
        self.answers: list[Completion] = []

    def best_answer(self) -> _Answer:
        """Return the answer, or the better of two if the first has faults and enough time is left.

        The built-in summarizer is asked only once: its first answer is its best. Raises `Refusal` if the best has
        figures that no message has.
        """
        if not without_invisible(text_of(self.folding.batch.shown)).strip():
            return self._assessed(self.folding.before.state)  # any answer would be made up, and would be refused
        best = first = self._answer()
        faults, now = first.assessment.faults, time.monotonic()
        if faults and self.until - now > now - self.started:
            logger.info("summarizer asked again", extra={"chat": self.chat_id, "faults": list(faults)})
            with suppress(UpstreamError, Refusal):
                second = self._answer(retry_instructions(first.assessment))
                best = min(first, second, key=lambda one: one.assessment.rank)
        for fault in ("unrelated", "unknown_figures"):
            if fault in best.assessment.faults:
                raise Refusal(fault)
        return best if best is first else replace(best, assessment=best.assessment.without_figures_of(first.assessment))

    def _answer(self, appended: str = "") -> _Answer:
        """Make one call, with this text after its material."""
        policy, state, limits = self.folding.policy, self.folding.before.state, self.folding.limits
        turns = self.folding.batch.shown
        lists_statements = self.folding.lists_statements and not self.is_free  # the built-in summarizer finds none
        ask = policy.ask(state, turns, limits)
        if lists_statements:
            ask = with_statements(ask)
        material, self.instructions = ask.input + appended, ask.instructions_under(limits)
        if not self.builtin and registry.disarms_control_tokens(conf.summarizer()):
            material, self.instructions = disarm(material), disarm(self.instructions)
        instructions = self.instructions + days_of(turns)
        prompt = Prompt(
            messages=(PromptMessage("user", material),),
            instructions=instructions,
            cache_key=self.chat_id,
            schema=ask.schema,
            answer_tokens=ask.answer_tokens,
        )
        limit = output_limit(conf.summarizer(), ask.max_output_tokens)
        variant = replace(conf.summarizer(), max_output_tokens=limit)
        self.sent.append(prompt)
        upstream = None if self.builtin else registry.upstream_of(conf.summarizer())
        with chat_span(prompt, variant, upstream, stream=False) as span:
            answer = self.model.complete(prompt, variant, timeout=max(0.05, self.until - time.monotonic()))
            answered(span, answer, answer.text)
        self.answers.append(answer)
        answer, statements = split_statements(ask, answer) if lists_statements else (answer, ())
        after = policy.absorb(state, turns, answer, limits)
        unknown: list[str] = []
        if not self.builtin:
            # The built-in summarizer only repeats what it was shown, and no fallback comes after it: never refused.
            shown = answer_checks.turn_texts(turns)
            answer_checks.check(state, after, shown, f"{instructions}\n{appended}")
            unknown = answer_checks.unknown_figures(state, after, [*shown, limits.focus, days_of(turns)])
        return self._assessed(after, 0 if self.is_free else ask.answer_tokens, statements, unknown)

    def _assessed(
        self,
        state: State,
        room: int = 0,
        statements: tuple[Statement, ...] = (),
        unknown: Sequence[str] = (),
    ) -> _Answer:
        """`room` is the length in tokens to judge the answer by; 0 if no model had a choice in it."""
        min_share = settings.MEMORY_MIN_RETAINED if room else 0.0
        before, turns = self.folding.before.state, self.folding.batch.turns
        policy = self.folding.policy
        assessment = assess(policy, before, state, turns, room=room, min_share=min_share, unknown=unknown)
        return _Answer(state, assessment, statements)

    @property
    def cost_usd(self) -> Decimal | None:
        """None if a price or a count is unknown."""
        if self.is_free:
            return Decimal(0)
        price, usages = conf.summarizer().price, [answer.usage for answer in self.answers if answer.usage]
        if price is None or len(usages) < len(self.answers):
            return None
        return storable_cost(sum((price.cost(usage) for usage in usages), Decimal(0)))


# Attempts


NO_FAILURES: dict[str, Any] = {"attempts": 0, "next_attempt_at": None, "last_error": None}
"""The fields of a brief after an answer from the upstream, whether or not that answer is used."""


class LeaseLost(Exception):
    """Another worker holds the lease now, or the chat is gone."""


@contextmanager
def attempt(brief: ConversationBrief, kind: RevisionKind, *, builtin: bool) -> Iterator[None]:
    """Count the block as an attempt to make a revision, and record why it failed.

    `brief` must have been loaded under the lease that it names. An attempt of the upstream is counted, and the lease
    renewed, before it begins: so one in which the worker dies counts too, and a chat that kills workers, is always
    refused or cannot be stored is passed to the built-in summarizer in the end. Raises `LeaseLost` instead of
    beginning without the lease.
    """
    number = brief.attempts + 1
    wait = timedelta(seconds=backoff_seconds(number, settings.MEMORY_FOLD_BACKOFF_SECONDS))
    counted = {} if builtin else {"attempts": number, "next_attempt_at": Now() + wait}
    mine = leases.held_by(brief.chat_key, brief.lease_owner)
    if not mine.update(lease_expires_at=leases.expiry(), **counted):
        raise LeaseLost
    try:
        fault_points.point("fold.counted")
        give_back()
        yield
    except Exception as failure:
        code, message = "internal", "Folding failed by a fault of our own; the log has it."
        if isinstance(failure, FoldFailed):
            code, message = failure.code, str(failure)
        error = {"code": code, "message": message, "at": timezone.now().isoformat(), "attempt": number}
        with transaction.atomic():
            mine.update(last_error=error, next_attempt_at=Now() + wait)
            if number == settings.MEMORY_FOLD_ATTEMPTS and not builtin:  # now the built-in one takes over
                told = {"code": code, "attempts": number, "version": brief.version}
                told |= {"links": {"memory": f"/v1/chats/{brief.chat_id}/brief"}}
                outbox.record(brief.chat_key, WebhookEventType.MEMORY_FAILED, told)
            daily.count_failure(kind, brief.policy)
        seconds = wait.total_seconds()
        extra = {"chat": str(brief.chat_id), "code": code, "attempt": number, "next_attempt_in": seconds}
        logger.warning("memory fold failed", extra=extra)
        metrics.FOLDS.labels(brief.policy, "failed").inc()
        raise

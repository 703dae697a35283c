"""Generate replies: for each, one asyncio task reads the upstream, appends to its text and wakes its readers. Stopping
one by its reader, a time limit, or the shutdown of the server, which gives other calls of a model as much time.

The task of a reply that is stored belongs to the process, not to a request: it has an empty context and a strong
reference, so a client that disconnects changes nothing. Twice a second, one checkpointer per process stores all
partial texts that grew. At the end the reply is finished in one transaction. A reply that is not stored, for clients
that manage their own history (seed 004), has one reader, and ends when that one leaves: no other reader could have the
rest. When the process is told to stop, readers are sent elsewhere at once, and generations get
`REPLY_DRAIN_SECONDS` to end by themselves.
"""

import asyncio
import contextvars
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Self, TypeVar, cast
from uuid import UUID
from weakref import WeakSet

from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError, InterfaceError

from chatmemory import metrics
from chatmemory.database import executors
from chatmemory.errors import Unavailable
from chatmemory.llm import registry
from chatmemory.llm.openai.failures import is_upstreams_own
from chatmemory.llm.protocol import (
    Deadlines,
    Delta,
    Prompt,
    Reply,
    ReplyError,
    ToolCall,
    Variant,
)
from chatmemory.llm.tracing import answered, chat_span
from chatmemory.runtime import fault_points, tracing
from chatmemory.runtime.logs import request_began, request_id
from chatmemory.text.tokens import count_tokens
from conversations.accounts import quotas
from conversations.accounts.end_users import app_id_of
from conversations.accounts.models import PassingCall
from conversations.models import Message, Status
from conversations.replies import finish
from conversations.replies.reply import NO_ANSWER, REQUESTED, BegunTurn, Ending, counts_of
from memory.context.prompt import disarmed, tools_text
from memory.policies.card import CardStream

logger = logging.getLogger(__name__)

T = TypeVar("T")

BROKEN = ReplyError("upstream_error", "Something went wrong on our side while the model answered.")

FINISH_TRIES = 8
"""Attempts to store a final reply while the database is away: 0.1 s apart at first, doubling, about 25 s in all."""
SILENT_TRIES = 5
"""After so many of them, about 3 s, readers are told. A database that restarts is back before that."""
RETRY_UNSTORED_SECONDS = 5

FIRST_WORDS = 8
"""Number of deltas after which readers get their turn even if more are there already, so that the first words need
not wait until a long burst has been read. After that, deltas that arrive together are sent together."""

FINISHED_AT_ONCE = 8
"""Maximum number of replies being finished at once. If a thousand end together, the renewal of leases would otherwise
wait behind all of them for longer than a lease lasts, and other processes would take the replies for abandoned
(measured with 2,000 streams over two servers)."""

STORED_TOGETHER = 100
"""Maximum number of partial texts stored in one transaction: other writers wait no longer than for these."""

BATCH = 16
"""Readers woken together. An audience of at most this size is woken without a pause."""
PAUSE_SECONDS = 0.005
"""Minimum pause between two batches. It is longer if the loop is late, so that other work gets as much time."""


class Broadcast:
    """The readers that wait for one reply to grow, woken in batches if they are many. To be used on the event loop.

    Each reader that wakes encodes and writes on the loop that also serves all other requests. So a small audience is
    woken at once, and a large one in batches with a pause in between, one batch at a time in the whole process, which
    leaves time for other requests. Late readers find more text and read it in one piece, so nothing piles up.
    """

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._woken_at = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self.is_silent = False
        """Whether readers were last woken because nothing came, so that a keep-alive is due."""

    async def wait(self, seconds: float) -> None:
        """Wait until there is more to read, or nothing came for `seconds`, the same for all readers."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append(future)
        if self._timer is None:
            _waited_for.add(self)
            self._timer = loop.call_later(seconds, self._silent, seconds)
        await future

    def wake(self, *, is_silent: bool = False) -> None:
        """Wake all readers that wait now."""
        global _pacing  # one per process
        self._woken_at, self.is_silent = time.monotonic(), is_silent
        waiting, self._waiting = self._waiting, []
        if len(waiting) <= BATCH:
            _release(waiting)
            return
        _crowd.extend(waiting)
        if _pacing is None or _pacing.done():
            _pacing = asyncio.get_running_loop().create_task(_pace(), context=contextvars.Context())

    def close(self) -> None:
        """Wake all readers for the last time."""
        self.wake()
        if self._timer is not None:
            self._timer.cancel()

    def _silent(self, seconds: float) -> None:
        """Wake the readers if nothing came for `seconds`. One timer for all: one per wait took a tenth of all time."""
        waits = self._woken_at + seconds - time.monotonic()
        self._timer = None
        if waits <= 0:
            self.wake(is_silent=True)
        elif self._waiting:
            self._timer = asyncio.get_running_loop().call_later(waits, self._silent, seconds)


_waited_for: WeakSet[Broadcast] = WeakSet()
_crowd: deque[asyncio.Future[None]] = deque()
"""Readers of large audiences that are still to be woken."""
_pacing: asyncio.Task[None] | None = None


def _release(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


async def _pace() -> None:
    """Wake the readers of large audiences batch by batch."""
    loop = asyncio.get_running_loop()
    while _crowd:
        _release(_crowd.popleft() for _ in range(min(BATCH, len(_crowd))))
        begun = loop.time()
        await asyncio.sleep(PAUSE_SECONDS)
        if (late := loop.time() - begun - PAUSE_SECONDS) > PAUSE_SECONDS:
            await asyncio.sleep(late)


class GrowingReply:
    """A reply that grows in this process, with what its readers share. Each reads it in a `with` block."""

    def __init__(self) -> None:
        self.text = ""
        """Its text so far. Positions in it are code points, as clients count them."""
        self.done = False
        self.final: Message | None = None
        """The final message. None although `done` if it is stored by another process, or not at all."""
        self.error: Exception | None = None
        """Why readers need not wait for the final message, if there is a reason."""
        self.failure: ReplyError | None = None
        """Why the final message is not complete, if it ended in this process: it has more than what is stored."""
        self.changes = Broadcast()
        """Wakes its readers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Generation(GrowingReply):
    """One reply being generated in this process: the part that does not depend on whether it is stored."""

    def __init__(self, prompt: Prompt, variant: Variant, card: CardStream | None = None) -> None:
        super().__init__()
        self.prompt, self.variant = prompt, variant
        self._card = card
        """Holds back the memory card at the end of the reply, which readers must not see."""
        self._request_id, self._trace = request_id.get(), tracing.carrier()
        self._arrived = request_began.get() or time.monotonic()
        self._first_token_at: float | None = None
        self._about: dict[str, Any] = {}
        """Further attributes of the call's span."""
        self._upstream: asyncio.Task[Reply] | None = None
        self._is_stopped = False
        self._cut: Ending | None = None
        self.slot: quotas.Slot | None = None
        """Its slot among the calls of its app, until it is done."""

    async def run(self) -> None:
        """Generate and finish the reply. However this ends, the generation is `done` and its readers are woken."""
        request_id.set(self._request_id)
        try:
            with tracing.continued(self._trace):
                self._upstream = asyncio.create_task(self._read())
                if self._is_stopped:
                    self._upstream.cancel()
                await asyncio.wait([self._upstream])
                fault_points.point("generate.ended")
                await self._finish(self._ending())
        finally:
            self.done = True
            if self.slot is not None:
                self.slot.close()
            self.changes.close()

    def stop(self, ending: Ending | None = None) -> None:
        """End the reply with the text so far: by default as cut off by the shutdown of this process."""
        if not self._is_stopped and not (self._upstream and self._upstream.done()):
            self._is_stopped, self._cut = True, ending
            if self._upstream is not None:
                self._upstream.cancel()

    async def _read(self) -> Reply:
        """Read the variant's reply. If its upstream fails before the first word, read its fallback's instead.

        An upstream that keeps failing is passed over for a while, so that later replies do not wait for it.
        """
        fault_points.point("generate.started")
        deadlines, variant, began = settings.REPLY_DEADLINES, self.variant, time.monotonic()
        metrics.OVERHEAD.observe(began - self._arrived)
        if variant.fallback is None:
            return await self._read_variant(deadlines)
        breaker, left = registry.breaker_of(variant), deadlines.total
        if breaker.allows(began):
            reply = await self._read_variant(deadlines)
            if reply.status != "failed" or not is_upstreams_own(reply.error):
                breaker.succeeded()
                return reply
            breaker.failed(now := time.monotonic())
            left -= now - began
            if left <= 0:
                return reply
        logger.info("the fallback answers", extra={"variant": variant.name, "fallback": variant.fallback.name})
        await self._fall_back(variant.fallback)
        return await self._read_variant(replace(deadlines, total=left))

    async def _fall_back(self, fallback: Variant) -> None:
        self.variant = fallback

    async def _read_variant(self, deadlines: Deadlines) -> Reply:
        upstream, began = registry.upstream_of(self.variant), time.monotonic()
        with chat_span(self.prompt, self.variant, upstream, stream=True, **self._about) as span:
            stream = registry.chat_model(self.variant).stream(self.prompt, self.variant, deadlines)
            reply = Reply("failed", error=NO_ANSWER)
            async with aclosing(cast("AsyncGenerator[Delta | Reply, None]", stream)) as items:
                count = 0
                async for item in items:
                    if isinstance(item, Reply):
                        reply = item
                        break
                    if not (text := self._card.feed(item.text) if self._card else item.text):
                        continue
                    fault_points.point("generate.delta")
                    self.text += text
                    self.changes.wake()
                    count += 1
                    if count == 1:
                        self._first_token_at = time.monotonic()
                        waited = self._first_token_at - self._arrived
                        metrics.FIRST_TOKEN.labels(self.variant.name).observe(waited)
                    elif count == FIRST_WORDS:
                        await asyncio.sleep(0)
            seconds = None if self._first_token_at is None else self._first_token_at - began
            answered(span, reply, self.text, seconds)
            return reply

    def _ending(self) -> Ending:
        assert self._upstream is not None
        if self._upstream.cancelled():
            return self._cut or Ending.cut_off(self.text)
        if (error := self._upstream.exception()) is not None:
            logger.error("generation failed", exc_info=error)
            return Ending.cut_off(self.text, BROKEN)
        return Ending.of(self._upstream.result())

    async def _finish(self, ending: Ending) -> None:
        """Set `final`, and store the reply or its usage."""
        raise NotImplementedError


class UnstoredReply(Generation):
    """A reply of which only the usage of the user's allowance is stored. It begins with its reader."""

    def __init__(self, prompt: Prompt, variant: Variant) -> None:
        prompt = disarmed(prompt) if registry.disarms_control_tokens(variant) else prompt
        super().__init__(prompt, variant)
        self.prompt_tokens = count_prompt(prompt)
        """By our own count."""
        self.calls: Sequence[ToolCall] = ()
        self._reservation: PassingCall | None = None

    async def reserve(self, user: User) -> None:
        """Reserve the user's allowance for the call. Raises `RateLimited` and `QuotaExceeded`."""
        self._about["user_id"] = user.pk
        self._reservation = await begin_call(user, self.prompt_tokens, self.variant)

    def __enter__(self) -> Self:
        _in_background(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(Ending.cancelled())

    async def _finish(self, ending: Ending) -> None:
        text, self.calls = self.text, ending.reply.calls
        tokens = await executors.read(count_tokens, text)
        self.final = ending.message(text, self.variant.name, self.variant.model, token_count=tokens)
        self.failure = ending.reply.error
        spent = counts_of(self.final, self.prompt_tokens)
        finish.count(self.final, spent)
        await end_call(self._reservation, spent.total if spent else None)


class TurnReply(Generation):
    """The reply of a turn. Any number of readers may come and go, in any process."""

    def __init__(self, begun: BegunTurn) -> None:
        brings_card = begun.pending.snapshot.card_epoch is not None
        super().__init__(begun.prompt, begun.variant, CardStream() if brings_card else None)
        self.pending, self.slot = begun.pending, begun.slot
        self.checkpointed = 0
        self._is_lost = False
        sent = begun.pending.snapshot
        is_compacted = bool(sent.revision) and any(clip != 0 for clip in sent.plan.state)  # turns, to a summary
        self._about = {"user_id": begun.pending.active.owner_id, "is_compacted": is_compacted}

    async def _fall_back(self, fallback: Variant) -> None:
        await super()._fall_back(fallback)
        active = self.pending.active
        active.metadata = {REQUESTED: active.model_variant}
        active.model_variant, active.model = fallback.name, fallback.model
        await executors.try_write("fallback not stored yet", finish.store_variant, self.pending)

    async def _read_variant(self, deadlines: Deadlines) -> Reply:
        """Read the reply. If the model's server finds the prompt too long, ask once more with a smaller one."""
        began = time.monotonic()
        reply = await super()._read_variant(deadlines)
        was_shrunk = self.pending.snapshot.plan.refused_tokens
        if was_shrunk or reply.error is None or reply.error.code != "context_length_exceeded" or self.text:
            return reply
        shrink = finish.store_smaller_prompt
        if (smaller := await executors.try_write("no smaller prompt", shrink, self.pending, self.prompt)) is None:
            return reply
        tokens = self.pending.snapshot.prompt_tokens
        self.pending, self.prompt = smaller
        logger.info(
            "asked again with a smaller prompt",
            extra={"tokens": tokens, "smaller": self.pending.snapshot.prompt_tokens},
        )
        return await super()._read_variant(replace(deadlines, total=deadlines.total + began - time.monotonic()))

    def abandon(self) -> None:
        """Stop without finishing: the reply no longer belongs to this process."""
        self._is_lost = True
        self.stop()

    async def _finish(self, ending: Ending) -> None:
        if self._is_lost:
            return
        if self._card is not None:
            rest, card = self._card.finish(cut_off=ending.status != Status.COMPLETE)
            if rest:  # held back, but not part of a card
                self.text += rest
                self.changes.wake()
            ending = ending.with_card(card, self.text)
        for one in (ending, ending.without_extras()):
            try:
                self.final = await self._stored(one)
                return
            except executors.UNSTORABLE as exc:  # if twice, the sweep finishes it, from its last checkpoint
                extra = {"reply": str(self.pending.message_id), "error": type(exc).__name__}
                logger.error("reply does not fit the database", extra=extra)
        self._tell_unstored()

    async def _stored(self, ending: Ending) -> Message | None:
        """Store the reply. If an error came after the commit, the next attempt finds and returns what was stored.

        Raises `executors.UNSTORABLE` at once.
        """
        text = self.text
        for attempt in range(FINISH_TRIES):
            try:
                async with _finishing:
                    message = await executors.write(finish.finish, self.pending, text, ending, **self._times())
                self.error = None
                if message is not None:
                    self.failure = ending.reply.error
                return message or (await executors.read(self._final) if attempt else None)
            except executors.UNSTORABLE:
                raise
            except (DatabaseError, InterfaceError) as exc:
                logger.warning(
                    "reply not stored yet",
                    extra={"reply": str(self.pending.message_id), "error": type(exc).__name__},
                )
                if attempt == SILENT_TRIES:
                    self._tell_unstored()
                await asyncio.sleep(0.1 * 2**attempt)
            except Exception:
                # Another attempt would fail the same way; but the reply may have been stored.
                logger.exception("reply not stored by a fault of our own")
                if (final := await executors.read(self._final)) is None:
                    self._tell_unstored()
                return final
        return None

    def _tell_unstored(self) -> None:
        """Send readers away, who would otherwise wait for as long as the reply cannot be stored."""
        self.error = unstored(self.pending.chat_id, self.pending.message_id)
        self.changes.wake()

    def _times(self) -> dict[str, int]:
        """Milliseconds since the request, for the log. A reply of tool calls only has no first token."""
        times = {"first_token_ms": self._first_token_at, "duration_ms": time.monotonic()}
        return {name: round(1000 * (at - self._arrived)) for name, at in times.items() if at is not None}

    def _final(self) -> Message | None:
        """Return the message if any process has stored it."""
        return Message.objects.filter(**self.pending.chat_key.columns, pk=self.pending.message_id).first()


_finishing = asyncio.Semaphore(FINISHED_AT_ONCE)
_running: dict[UUID, TurnReply] = {}
_tasks: dict[asyncio.Task[Any], Callable[[], object]] = {}
"""The running tasks, each with the function that ends it if it takes too long at a shutdown."""
_watching: asyncio.Task[None] | None = None
_checkpointer: asyncio.Task[None] | None = None
_drain_task: asyncio.Task[None] | None = None


def start(begun: BegunTurn) -> None:
    """Start generating, in a separate task on the running loop."""
    global _checkpointer  # one per process
    message_id, sent = begun.pending.message_id, begun.pending.snapshot
    metrics.PROMPTS.labels(sent.plan.missing).inc()
    for section in sent.sections:
        metrics.PROMPT_TOKENS.labels(section.kind).inc(section.tokens)
    _running[message_id] = reply = TurnReply(begun)
    _in_background(reply).add_done_callback(lambda _: _running.pop(message_id, None))
    if _checkpointer is None or _checkpointer.done():
        _checkpointer = asyncio.get_running_loop().create_task(_checkpoints(), context=contextvars.Context())


def _in_background(reply: Generation) -> asyncio.Task[None]:
    """Run on the loop, with a strong reference.

    In an empty context, so that nothing of the request (its thread-sensitive executor, its connection) is kept alive.
    """
    task = asyncio.get_running_loop().create_task(reply.run(), context=contextvars.Context())
    _tasks[task] = reply.stop
    task.add_done_callback(_tasks.pop)
    return task


def unstored(chat_id: UUID, message_id: UUID) -> Unavailable:
    """Return the error for readers of a reply that has ended, but that the database does not take."""
    return Unavailable(
        "The reply has ended, but is not stored yet. Resume its stream in a moment.",
        details={"chat_id": [str(chat_id)], "message_id": [str(message_id)]},
        retry_after=RETRY_UNSTORED_SECONDS,
    )


def running(message_id: UUID) -> TurnReply | None:
    """Return the generation of this reply, if it runs in this process."""
    return _running.get(message_id)


def is_draining() -> bool:
    return _drain_task is not None


def refuse_when_draining() -> None:
    """Raise `Unavailable` if this process is shutting down: new turns go to another process."""
    if is_draining():
        raise Unavailable("This server is restarting. Try again in a moment.", retry_after=1)


def start_draining() -> None:
    """Send readers away and give the generations their time; called on SIGTERM, before the server stops listening.

    Not only at shutdown, because that comes after the last response: one with `"stream": false` waits for its reply.
    """
    global _drain_task  # a process drains once
    if _drain_task is None:
        logger.info("draining", extra={"replies": len(_running)})
        _drain_task = asyncio.get_running_loop().create_task(_drain(), context=contextvars.Context())
        for broadcast in list(_waited_for):
            broadcast.wake()


async def shut_down() -> None:
    """Give generations `REPLY_DRAIN_SECONDS` to end by themselves, then finish the rest as cut off."""
    start_draining()
    if _drain_task is not None:
        await _drain_task
    if _tasks:
        await asyncio.wait(_tasks, timeout=settings.REPLY_LEASE_SECONDS)
    await stop_watching()


async def _drain() -> None:
    if _tasks:
        await asyncio.wait(_tasks, timeout=settings.REPLY_DRAIN_SECONDS)
    for end in list(_tasks.values()):
        end()


def watch() -> None:
    """Start finishing replies whose lease has expired, on the running loop."""
    global _watching  # one per process
    _watching = asyncio.get_running_loop().create_task(_watch(), context=contextvars.Context())


async def stop_watching() -> None:
    """Stop finishing them. A reply being finished at this moment is still finished."""
    if _watching is not None:
        _watching.cancel()
        await asyncio.wait([_watching])


async def _watch() -> None:
    while True:
        await executors.try_write("no look for abandoned replies", finish.finish_expired)
        await asyncio.sleep(settings.REPLY_LEASE_SECONDS)


# Calls that are not stored


def count_prompt(prompt: Prompt) -> int:
    """Count the tokens of a prompt; return 0 without counting if limits are off."""
    if not quotas.enabled():
        return 0
    texts = sum(message.tokens(count_tokens) for message in prompt.messages)
    operator = f"{prompt.instructions}\n{tools_text(prompt.tools)}" if prompt.tools else prompt.instructions
    return texts + sum(one.tokens for one in prompt.attachments) + count_tokens(operator)


async def begin_call(user: User, prompt_tokens: int, variant: Variant | None = None) -> PassingCall | None:
    """Reserve for a call that is not stored; return its row for `end_call`, or None if limits are off. Without a
    variant, nothing but the prompt counts.

    Raises `RateLimited` and `QuotaExceeded`. The row that holds the reservation expires if this process goes away.
    """
    if not quotas.enabled():
        return None
    tokens = quotas.tokens_for(prompt_tokens, variant) if variant else prompt_tokens
    return await executors.write(lambda: quotas.begin_unstored(user.pk, tokens, app_id_of(user)))


async def end_call(call: PassingCall | None, spent: int | None) -> None:
    """Settle a call, with the tokens it used or None if nothing came of it."""
    if call is not None:
        await executors.try_write("call not settled, it will expire", quotas.end_unstored, call, spent)


async def cancel_on_drain(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, cancelled with this call. Raises `Unavailable` if the process shuts down first."""
    task = asyncio.create_task(work)
    _tasks[task] = task.cancel
    task.add_done_callback(_tasks.pop)
    try:
        await asyncio.wait([task])
        if task.cancelled():
            refuse_when_draining()
        return task.result()
    finally:
        task.cancel()


# Checkpoints


async def _checkpoints() -> None:
    """While any reply is generated: store what grew, renew leases, stop replies that were cancelled or lost."""
    renewed = time.monotonic()
    while _running:
        await asyncio.sleep(settings.REPLY_CHECKPOINT_SECONDS)
        now = time.monotonic()
        renew = now - renewed >= settings.REPLY_LEASE_SECONDS / 3
        replies = {key: reply for key, reply in _running.items() if not reply.done}
        if not replies:
            continue
        lengths = {key: len(reply.text) for key, reply in replies.items()}
        grown = [key for key, reply in replies.items() if lengths[key] > reply.checkpointed]
        try:
            texts = [(replies[key].pending, replies[key].text) for key in grown]
            for start in range(0, len(texts), STORED_TOGETHER):
                await executors.write(finish.store_partial, texts[start : start + STORED_TOGETHER])
            owners = {reply.pending.active.owner_id for reply in replies.values()}
            mine = await executors.write(finish.checkpoint, list(replies) if renew else [], owners)
        except Exception as exc:
            # Go on after any error: without checkpoints, all replies of this process would be taken for abandoned.
            is_fault = not isinstance(exc, DatabaseError | InterfaceError)
            extra = {"replies": len(grown), "error": type(exc).__name__}
            level = logging.ERROR if is_fault else logging.WARNING
            logger.log(level, "checkpoint failed", exc_info=is_fault, extra=extra)
            continue
        renewed = now if renew else renewed
        for key, reply in replies.items():
            reply.checkpointed = lengths[key]
            if key not in mine:
                reply.abandon()
            elif mine[key]:
                reply.stop(Ending.cancelled())

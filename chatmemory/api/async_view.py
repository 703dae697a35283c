"""The base class of async DRF views: handlers run in the database executor, responses are made on the event loop, and
a large body is freed before its response is awaited.

DRF has no async views. `AsyncView` runs DRF's own authentication, negotiation, throttling and validation in one call
on the database executor (measured: twice the streams of a synchronous view, a fifth of its 95th percentile latency).

All large bodies share one budget of memory in a process. A request that needs more than is left waits for its turn,
first come, first served. So the memory that they take does not depend on how many clients send them at once.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from io import BytesIO
from typing import Any, ClassVar, Generic, TypeVar

from asgiref.sync import markcoroutinefunction
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.http.response import HttpResponseBase
from rest_framework.permissions import SAFE_METHODS
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api import error_handler
from chatmemory.api.http import MAX_COPIES, EventStreamRenderer
from chatmemory.database import executors
from chatmemory.errors import Unavailable

P = TypeVar("P")

SMALL_BYTES = 1_000_000
"""Up to this size, a body and its values take nothing of the budget."""
BUDGET_BYTES = 64 * 1024 * 1024
WAIT_SECONDS = 30.0
"""How long a body waits for its turn before it is refused."""


class SharedAmount:
    """An amount of which tasks on one event loop hold parts."""

    def __init__(self, amount: int) -> None:
        self.amount = amount
        self.held = 0
        self._line = asyncio.Lock()
        """Held by the task that waits for its part; others queue behind it."""
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def hold(self, amount: int) -> AsyncIterator[None]:
        """Hold a part, the whole at most. Raises `Unavailable` after waiting for `WAIT_SECONDS`."""
        if not amount:  # a task that needs nothing does not queue
            yield
            return
        amount = min(amount, self.amount)
        try:
            async with asyncio.timeout(WAIT_SECONDS), self._line:
                while self.held + amount > self.amount:
                    self._freed.clear()
                    await self._freed.wait()
                self.held += amount
        except TimeoutError:
            raise Unavailable("The server is busy with other large requests.", retry_after=5) from None
        try:
            yield
        finally:
            self.held -= amount
            self._freed.set()


_memory = SharedAmount(BUDGET_BYTES)
_parsing = SharedAmount(1)
"""Large bodies are parsed and checked one at a time, so that small requests always find a free thread."""


class AsyncView(APIView, Generic[P]):
    """A DRF view in two steps: a handler prepares the response in a database thread, `respond` makes it on the loop.

    Handlers (`get`, `post`) return a response, as in any DRF view, or `P`: all that `respond` needs. The work is
    shielded: it goes on if the client disconnects, unless the view is stateless.
    """

    renderer_classes = [JSONRenderer, EventStreamRenderer]
    is_stateless: ClassVar[bool] = False
    """Whether the view stores nothing. It needs no writer, and is cancelled when its client disconnects."""
    stores_in_respond: ClassVar[bool] = False
    """Whether handlers only read, and `respond` stores what the body says. Then a large body's part of the budget is
    held until `respond` closes `memory` or ends, else until the handler ends."""
    copies: ClassVar[int] = MAX_COPIES
    """How many times the length of a large body is taken of the budget."""

    @classmethod
    def as_view(cls, **initkwargs: object) -> Any:
        view = super().as_view(**initkwargs)
        markcoroutinefunction(view)
        return view

    async def dispatch(  # type: ignore[override]  # DRF's is not async
        self, request: HttpRequest, *args: object, **kwargs: object
    ) -> HttpResponseBase:
        self.memory = AsyncExitStack()
        """The part of the budget for large bodies that this request holds."""
        self.length = length = int(request.META.get("CONTENT_LENGTH") or 0)
        self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            size = self.copies * length if length > SMALL_BYTES // 2 else 0
            await self.memory.enter_async_context(_memory.hold(size))
        except Unavailable as exc:
            return self._rendered(self._failed(exc))
        try:
            if length > SMALL_BYTES:  # from a file
                await asyncio.to_thread(_take_body, request)
            else:
                _take_body(request)
        except BaseException:
            await self.memory.aclose()
            raise
        work = asyncio.get_running_loop().create_task(self._serve())
        _serving.add(work)
        work.add_done_callback(_serving.discard)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if self.is_stateless:
                work.cancel()
            raise

    async def _serve(self) -> HttpResponseBase:
        only_reads = self.is_stateless or self.stores_in_respond or self.request.method in SAFE_METHODS
        run = executors.read if only_reads else executors.write
        async with self.memory:
            try:
                async with _parsing.hold(int(self.length > SMALL_BYTES)):
                    prepared = await run(self._prepare)
            except Unavailable as exc:
                prepared = self._rendered(self._failed(exc))
            if isinstance(prepared, HttpResponseBase):
                self.drop_body()
                if prepared.status_code == 400 or (self.length > SMALL_BYTES and prepared.status_code == 404):
                    await self.count_refusal()
                return prepared
            if not self.stores_in_respond:
                await self.memory.aclose()
            responding = self.respond(prepared)
            del prepared  # `respond` drops its large parts
            try:
                response = await responding
            except Exception as exc:  # noqa: BLE001  # the same last resort as DRF's dispatch: every error gets its body
                response = self._failed(exc)
                if self.length > SMALL_BYTES and response.status_code == 404:
                    await self.count_refusal()
            return self._rendered(response) if isinstance(response, Response) else response

    def _prepare(self) -> HttpResponseBase | P:
        """Run DRF's dispatch up to and including the handler. A `Response` is returned rendered."""
        prepared: HttpResponseBase | P
        try:
            self.initial(self.request, *self.args, **self.kwargs)
            method = (self.request.method or "").lower()
            # Look up method names only: `getattr` would find any other attribute of the view, too.
            known = method in self.http_method_names
            handler = getattr(self, method, None) if known else None
            prepared = (handler or self.http_method_not_allowed)(self.request, *self.args, **self.kwargs)
        except Exception as exc:  # noqa: BLE001  # as above
            prepared = self._failed(exc)
        return self._rendered(prepared) if isinstance(prepared, Response) else prepared

    def _failed(self, exc: Exception) -> Response:
        try:
            return self.handle_exception(exc)
        except Exception as unexpected:  # noqa: BLE001  # handle_exception re-raises exceptions that it does not handle
            return error_handler.internal_error(unexpected)

    def _rendered(self, response: Response) -> HttpResponse:
        finalized = self.finalize_response(self.request, response, *self.args, **self.kwargs)
        assert isinstance(finalized, Response)
        rendered: HttpResponse = finalized.render()
        return rendered

    def drop_body(self) -> None:
        """Drop the request's body and what was parsed from it, which Django and DRF keep until the response ends."""
        empty = BytesIO()
        vars(self.request).update(_data={}, _full_data={}, _stream=empty)
        vars(self.request._request).update(_stream=empty, _body=b"")

    async def count_refusal(self) -> None:
        """Count a request whose body was refused, where requests are limited."""

    async def respond(self, prepared: P) -> HttpResponseBase:
        """Make the response, on the event loop."""
        raise NotImplementedError(f"{type(self).__name__}.respond")


def _take_body(request: HttpRequest) -> None:
    """Read the body now: Django closes its file when the client disconnects, while the work continues."""
    with suppress(RequestDataTooBig, UnreadablePostError):  # DRF raises it again, and answers
        _ = request.body


_serving: set[asyncio.Task[HttpResponseBase]] = set()

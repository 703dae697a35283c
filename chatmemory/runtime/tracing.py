"""Traces by OpenTelemetry: the spans of this process, and which request caused work, also in another process.

Only OpenTelemetry's API is imported. Nothing here does anything until `set_up` finds the SDK (the extra `otel`) and
the standard variables `OTEL_…` switch it on. A span says which kind of error ended it, never an exception's message,
which may quote a chat.
"""

import hmac
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes

from chatmemory.runtime.escape import without_end_user

logger = logging.getLogger(__name__)

NAME = "chatmemory"
FLUSH_SECONDS = 3.0
"""How long the end of a process waits until the last spans are sent."""
W3C = TraceContextTextMapPropagator()
"""Not `OTEL_PROPAGATORS`, whose baggage would pass anything from clients on to models' servers."""
CHAT_ID = ("gen_ai.conversation.id", "session.id")
"""Tools that show conversations, such as Langfuse, read the second."""
OFF = nullcontext(INVALID_SPAN)

is_on = False
tracer = trace.get_tracer(NAME)
_key = b""
_end: Callable[[], None] | None = None


def set_up(key: str, instance: str) -> None:
    """Send the spans of this process, named `instance`, if that is switched on. `key` is for the hashes of users."""
    global is_on, _key, _end  # one per process
    if not _is_on(os.environ):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning("no traces are sent: the extra `otel` is not installed")
        return
    if "service.name" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", NAME)
    resource = Resource.create({"service.instance.id": instance})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    is_on, _key, _end = True, key.encode(), provider.shutdown


def _is_on(environ: Mapping[str, str]) -> bool:
    """Whether the standard variables ask for traces, by an endpoint or by the exporter's name."""
    exporter = environ.get("OTEL_TRACES_EXPORTER", "")
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not is_off and (exporter == "otlp" or (not exporter and any(map(environ.get, endpoints))))


def shut_down() -> None:
    """Send what is left, for at most `FLUSH_SECONDS`: a collector that hangs must not keep the process."""
    if _end is not None:
        last = threading.Thread(target=_end, name="last spans", daemon=True)
        last.start()
        last.join(FLUSH_SECONDS)


@contextmanager
def span(
    name: str, kind: SpanKind = SpanKind.INTERNAL, parent: Context | None = None, told: Attributes = None
) -> Iterator[Span]:
    """The span of the block, in which it is the current one; with the attributes `told`."""
    if not is_on:
        yield INVALID_SPAN
        return
    with tracer.start_as_current_span(
        name, parent, kind, told, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current
        except Exception as exc:
            coded = getattr(exc, "reason", exc)  # an `UpstreamError` has its `ReplyError`
            fail(current, getattr(coded, "code", "") or type(exc).__name__)
            raise


def memory_span(operation: str, chat_id: object) -> AbstractContextManager[Span]:
    """The span of an operation on a chat's memory, by OpenTelemetry's conventions for generative AI."""
    if not is_on:
        return OFF
    its = dict.fromkeys(("gen_ai.memory.store.id", *CHAT_ID), str(chat_id))
    its |= {"gen_ai.operation.name": operation, "gen_ai.provider.name": NAME}
    return span(operation, told=its)


def describe(attributes: Mapping[str, str | int]) -> None:
    """Set attributes of the current span."""
    if is_on:
        trace.get_current_span().set_attributes(attributes)


def fail(current: Span, error: str) -> None:
    """Mark a span as failed, with the code or the class of the error."""
    current.set_attribute("error.type", error)
    current.set_status(StatusCode.ERROR)


def user_hash(user_id: int) -> str:
    """A user's pseudonym in spans: the same in all traces, and only our key leads back to the user."""
    return hmac.digest(_key, f"trace:{user_id}".encode(), "sha256").hex()[:16]


def request_span(
    method: str, path: str, scheme: str, headers: Iterable[tuple[bytes, bytes]]
) -> AbstractContextManager[Span]:
    """The span of a client's request. It continues the trace that the client names."""
    if not is_on:
        return OFF
    given = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    asked = {"http.request.method": method, "url.path": without_end_user(path), "url.scheme": scheme}
    return span(method, SpanKind.SERVER, W3C.extract(given, Context()), asked)


def request_answered(method: str, status: int, route: str = "") -> None:
    """Describe how the request of the current span ended. `route` is the pattern of its path, "" if unknown."""
    if is_on:
        current = trace.get_current_span()
        current.set_attribute("http.response.status_code", status)
        if route:
            current.set_attribute("http.route", f"/{route}")
            current.update_name(f"{method} /{route}")
        if status >= 500:
            fail(current, str(status))


def carrier() -> dict[str, str]:
    """The headers that name the current span, for a request or a task that it causes; empty without one."""
    headers: dict[str, str] = {}
    if is_on:
        W3C.inject(headers)
    return headers


@contextmanager
def continued(headers: Mapping[str, str]) -> Iterator[None]:
    """Continue in the block the trace that these headers name, or none."""
    token = attach(W3C.extract(headers, Context())) if is_on else None
    try:
        yield
    finally:
        if token is not None:
            detach(token)


def ids() -> dict[str, str]:
    """The ids of the current trace and span, for a log line; empty without one."""
    if not (is_on and (current := trace.get_current_span().get_span_context()).is_valid):
        return {}
    return {"trace_id": f"{current.trace_id:032x}", "span_id": f"{current.span_id:016x}"}

"""Traces by OpenTelemetry: the spans of this process, and which request caused work, also in another process.

Only OpenTelemetry's API is imported. Its spans do nothing until `set_up` finds the SDK (the extra `otel`) switched on
by the standard variables `OTEL_…`. A client's `traceparent` is passed on in any case. A span says which kind of error
ended it, never an exception's message, which may quote a chat.
"""

import hmac
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

logger = logging.getLogger(__name__)

NAME = "chatmemory"
FLUSH_SECONDS = 3.0
"""How long the end of a process waits until the last spans are sent."""
W3C = TraceContextTextMapPropagator()
"""Not the one of `OTEL_PROPAGATORS`, whose baggage would pass anything from clients on to models' servers."""
CHAT_ID = ("gen_ai.conversation.id", "session.id")
"""The second is that of those who show conversations, such as Langfuse."""

tracer = trace.get_tracer(NAME)
_key = b""
_end: Callable[[], None] | None = None


def set_up(key: str, instance: str) -> None:
    """Send the spans of this process, named `instance`, if that is switched on. `key` is for the hashes of users."""
    global _key, _end  # one per process
    _key = key.encode()
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
    _end = provider.shutdown


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
def span(name: str, kind: SpanKind = SpanKind.INTERNAL, parent: Context | None = None) -> Iterator[Span]:
    """The span of the block, in which it is the current one."""
    with tracer.start_as_current_span(
        name, parent, kind, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current
        except Exception as exc:
            coded = getattr(exc, "reason", exc)  # an `UpstreamError` has its `ReplyError`
            fail(current, getattr(coded, "code", "") or type(exc).__name__)
            raise


@contextmanager
def memory_span(operation: str, chat_id: object) -> Iterator[None]:
    """The span of an operation on a chat's memory, by OpenTelemetry's conventions for generative AI."""
    with span(operation):
        describe({"gen_ai.operation.name": operation, "gen_ai.provider.name": NAME})
        describe(dict.fromkeys(("gen_ai.memory.store.id", *CHAT_ID), str(chat_id)))
        yield


def describe(attributes: Mapping[str, str | int | None]) -> None:
    """Set attributes of the current span, those that are not None."""
    current = trace.get_current_span()
    if current.is_recording():
        current.set_attributes({name: value for name, value in attributes.items() if value is not None})


def fail(current: Span, error: str) -> None:
    """Mark a span as failed, with the code or the class of the error."""
    current.set_attribute("error.type", error)
    current.set_status(StatusCode.ERROR)


def user_hash(user_id: int | None) -> str:
    """What spans say of a user: the same in all traces, and without our key nobody knows who it is."""
    return hmac.digest(_key, f"trace:{user_id}".encode(), "sha256").hex()[:16]


@contextmanager
def request_span(method: str, headers: Iterable[tuple[bytes, bytes]]) -> Iterator[None]:
    """The span of a client's request. It continues the trace that the client names."""
    given = {name.decode(): value.decode("latin-1") for name, value in headers if name.startswith(b"trace")}
    with span(method, SpanKind.SERVER, W3C.extract(given, Context())):
        yield


def answered(method: str, path: str, status: int, route: str = "") -> None:
    """Describe the request of the current span. `route` is the pattern of its path, "" if unknown."""
    current = trace.get_current_span()
    if current.is_recording():
        current.update_name(f"{method} /{route}" if route else method)
        describe({"http.request.method": method, "http.route": f"/{route}" if route else None})
        describe({"url.path": path, "http.response.status_code": status})
        if status >= 500:
            fail(current, str(status))


def carrier() -> dict[str, str]:
    """The headers that name the current span, for a request or a task that it causes; empty without one."""
    headers: dict[str, str] = {}
    W3C.inject(headers)
    return headers


@contextmanager
def continued(headers: Mapping[str, str]) -> Iterator[None]:
    """Continue in the block the trace that these headers name, or none."""
    token = attach(W3C.extract(headers, Context()))
    try:
        yield
    finally:
        detach(token)


def ids() -> dict[str, str]:
    """The ids of the current trace and span, for a log line; empty without one."""
    current = trace.get_current_span().get_span_context()
    if not current.is_valid:
        return {}
    return {"trace_id": f"{current.trace_id:032x}", "span_id": f"{current.span_id:016x}"}

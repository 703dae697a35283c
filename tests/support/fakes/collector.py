"""A collector of traces: OTLP over real HTTP. It keeps the spans that it is sent, or never answers."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.fakes.http import Call, Serving


@dataclass
class Received:
    """A span as it came, with the attributes of the process that sent it."""

    process: dict[str, Any]
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]


@dataclass
class Collector(Serving):
    """`spans` has what came. With `hangs`, requests are accepted and not answered."""

    hangs: bool = False
    spans: list[Received] = field(default_factory=list)
    requests: int = 0

    def __post_init__(self) -> None:
        self._over = threading.Event()

    def post(self, call: Call) -> None:
        assert call.path == "/v1/traces"
        self.requests += 1
        if self.hangs:
            self._over.wait()
            return
        self.spans += spans_in(ExportTraceServiceRequest.FromString(call.body))
        call.answer(200)

    def __exit__(self, *error: object) -> None:
        self._over.set()
        super().__exit__(*error)

    @property
    def env(self) -> dict[str, str]:
        """The standard variables of a process that sends its spans here."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.base_url, "OTEL_BSP_SCHEDULE_DELAY": "200"}

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]


def spans_in(request: Any) -> list[Received]:
    return [
        Received(
            _values(sent.resource.attributes),
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            _values(span.attributes),
        )
        for sent in request.resource_spans
        for scope in sent.scope_spans
        for span in scope.spans
    ]


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}

"""A collector of traces: OTLP over real HTTP. It keeps the spans that it is sent, or never answers."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


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
class Collector:
    """`spans` has what came. With `hangs`, requests are accepted and not answered."""

    hangs: bool = False
    spans: list[Received] = field(default_factory=list)
    requests: int = 0

    def __enter__(self) -> Collector:
        outer, self._over = self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                outer.requests += 1
                if outer.hangs:
                    outer._over.wait()
                    return
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.spans += spans_in(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def env(self) -> dict[str, str]:
        """The standard variables of a process that sends its spans here."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "200"}

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

"""The spans that this process ends, kept in memory."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from chatmemory.runtime import tracing
from tests.support.waiting import wait_for


class Spans:
    """The spans that have ended since the test began."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def __iter__(self) -> Iterator[ReadableSpan]:
        return iter(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """Return the only span of that name, once it has ended."""
        wait_for(lambda: self.named(name), f"a span {name}, not only {[span.name for span in self]}")
        (found,) = self.named(name)
        return found

    def clear(self) -> None:
        self.exporter.clear()

    @property
    def text(self) -> str:
        """Everything that is sent of them."""
        return "".join(span.to_json() for span in self)


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """Record the spans of this process in the block."""
    spans = Spans()
    monkeypatch.setattr(tracing, "tracer", spans.provider.get_tracer("test"))
    monkeypatch.setattr(tracing, "is_on", True)
    yield spans
    monkeypatch.undo()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return json.loads(span.to_json())["attributes"]  # type: ignore[no-any-return]


def parent(span: ReadableSpan) -> str:
    """Return the id of its parent; "" if it has none."""
    return f"{span.parent.span_id:016x}" if span.parent else ""


def ids(span: ReadableSpan) -> tuple[str, str]:
    """Return the ids of its trace and of the span itself."""
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"

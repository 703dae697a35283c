"""When traces are sent, and what a process without them imports."""

import subprocess
import sys

import pytest
from opentelemetry.trace import INVALID_SPAN

from chatmemory.runtime import tracing

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("environ", "is_on"),
    [
        ({}, False),
        ({ENDPOINT: "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({ENDPOINT: "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({ENDPOINT: "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_standard_variables_switch_traces_on(environ: dict[str, str], is_on: bool) -> None:
    assert tracing._is_on(environ) is is_on


def set_up(before: str = "", **environ: str) -> str:
    """Set up traces in another process; return what it imported of the SDK, and what it logged."""
    code = (
        f"import sys; {before}\nfrom chatmemory.runtime import tracing\n"
        "tracing.set_up('key', 'name')\nwith tracing.span('nothing'): tracing.shut_down()\n"
        "print('opentelemetry.sdk.trace' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    return f"{done.stdout}{done.stderr}".strip()


def test_without_them_no_span_is_made() -> None:
    headers = {"traceparent": f"00-{'1' * 32}-{'1' * 16}-01"}
    of_request = tracing.request_span("GET", "/", "http", [(b"traceparent", headers["traceparent"].encode())])
    assert tracing.memory_span("x", 1) is of_request is tracing.OFF
    with tracing.continued(headers), tracing.span("x") as span:
        assert span is INVALID_SPAN
        assert tracing.carrier() == tracing.ids() == {}


def test_the_sdk_is_imported_only_for_traces_and_reported_where_it_is_missing() -> None:
    assert set_up() == "False"
    missing = "sys.modules['opentelemetry.sdk'] = None"
    told = set_up(missing, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert told == "False\nno traces are sent: the extra `otel` is not installed"

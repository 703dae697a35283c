"""Tracebacks in logs are short: our own frames, and where a library raised."""

from django.template import Template

from chatmemory.runtime.logs import FRAMES, safe_traceback


def deep(depth: int) -> None:
    if depth:
        deep(depth - 1)
    Template("{% for %}")


def test_frames_of_libraries_are_left_out_except_the_innermost() -> None:
    try:
        deep(30)
    except Exception as exc:  # noqa: BLE001 - any
        lines = safe_traceback(exc).splitlines()
    assert sum(line.startswith("  File") for line in lines) == FRAMES
    assert sum("site-packages" in line for line in lines) == 2
    assert "in deep" in lines[1]
    assert "site-packages" in lines[-2]

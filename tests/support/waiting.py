"""Waiting for a state instead of a fixed time."""

import time
from collections.abc import Callable
from typing import Any


def wait_for(condition: Callable[[], Any], what: str = "what was expected", *, timeout: float = 90.0) -> Any:
    """Return the first true value of `condition`. Raise `AssertionError` with `what` if there is none in time."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"this did not happen in {timeout:g} s: {what}"
        time.sleep(0.01)
    return value

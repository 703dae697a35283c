"""Waiting for a state instead of a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_for(condition: Callable[[], Any], *, timeout: float = 30.0) -> Any:
    """Return the first true value of `condition`. Raise `AssertionError` if there is none in time."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError("this did not happen in time")

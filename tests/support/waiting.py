"""Waiting for a state, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_for(condition: Callable[[], Any], *, timeout: float = 30.0) -> Any:
    """Wait for a state, never for a time: the first true value of `condition`."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError("this did not happen in time")

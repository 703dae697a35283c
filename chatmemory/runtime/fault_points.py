"""Named places in our code at which a test lets the process die, fail or stall: `fault_points.point(name)`.

In production a point does nothing. `FAULT_POINTS` names a module whose function `point` is called instead.
"""

import importlib
import os
from collections.abc import Callable


def _off(name: str) -> None:
    """Do nothing."""


_module = os.environ.get("FAULT_POINTS")
point: Callable[[str], None] = importlib.import_module(_module).point if _module else _off

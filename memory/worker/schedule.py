"""The schedule of the sweep in django-q2, which is renewed after each migration."""

from __future__ import annotations

import math
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

SWEEP = "memory.tasks.sweep_task"


def schedule_sweep(sender: Any, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Have django-q2 run the sweep every `SWEEP_SECONDS`, rounded up to whole minutes, its unit."""
    from django_q.models import Schedule

    if using != DEFAULT_DB_ALIAS:
        return
    Schedule.objects.update_or_create(
        name="chatmemory sweep",
        defaults={
            "func": SWEEP,
            "schedule_type": Schedule.MINUTES,
            "minutes": max(1, math.ceil(settings.SWEEP_SECONDS / 60)),
            "repeats": -1,
        },
    )

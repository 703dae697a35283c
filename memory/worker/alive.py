"""Which workers are alive: each has a row, which it renews while it runs. All times are the database's."""

from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from chatmemory.runtime import process
from memory.models import ConversationBrief, Worker

BEAT_SECONDS = 5.0
"""How often a worker renews its row."""
ALIVE_FOR = timedelta(seconds=30)
"""A worker that has not renewed its row for so long is dead, or cannot reach the database."""

ALIVE = Q(seen_at__range=(Now() - ALIVE_FOR, Now() + ALIVE_FOR))
"""The condition for live workers. A time to come is that of a worker which died before the clock was set back."""

NO_WORKER = "No worker is running: start `manage.py worker`."
SILENT_WORKER = (
    "No worker has stored a sign of life for 30 seconds. If one runs, its log says why, such as a full disk of the "
    "database; else start `manage.py worker`."
)


def beat() -> None:
    """Record that this worker is alive."""
    Worker.objects.update_or_create(pk=process.name(), defaults={"seen_at": Now()})


def leave() -> None:
    """Release what this worker holds, as it ends."""
    _remove([process.name()])


def problem(host: str = "") -> str | None:
    """A sentence if no worker, or none of this `host`, is alive; else None."""
    workers = Worker.objects.filter(pk__startswith=f"{host}:" if host else "")
    if workers.filter(ALIVE).exists():
        return None
    return SILENT_WORKER if workers.exists() else NO_WORKER


def remove_dead() -> int:
    """Release the leases of dead workers, so that others continue before those expire, and remove their rows.

    Returns the number of dead workers. A worker that comes back makes a new row, and notices that its lease is lost.
    """
    return _remove(list(Worker.objects.exclude(ALIVE).values_list("pk", flat=True)))


def _remove(names: list[str]) -> int:
    for name in names:
        leased = ConversationBrief.objects.filter(lease_owner__startswith=f"{name}:")
        leased.update(lease_owner="", lease_expires_at=None)
    return Worker.objects.filter(pk__in=names).delete()[0]

"""One benchmark on one database, in its own process: `python -m benchmarks.child NAME` prints its figures as JSON.

The database is the one named by `DATABASE_URL`. It is migrated here and not removed afterwards.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User

    from benchmarks.figures import Group


def main(name: str) -> None:
    """Run one benchmark and print its figures."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    owner, _ = User.objects.get_or_create(username="benchmark")
    json.dump(_benchmarks()[name](owner).to_json(), sys.stdout)


def _benchmarks() -> dict[str, Callable[[User], Group]]:
    from benchmarks import pages, path, size
    from benchmarks.engine import across, apps, gate, growth, hostile, lineage, turns
    from benchmarks.recall import speed
    from benchmarks.serving import agents, big, completions, folds, footprint, many, released, scale, slow, streams

    return {
        "turns": turns.run,
        "first-token": streams.first_token,
        "streams": streams.throughput,
        "memory": streams.memory,
        "footprint": footprint.run,
        "folds": folds.run,
        "slow-streams": slow.run,
        "two-servers": slow.two_servers,
        "completions": completions.run,
        "growth": growth.run,
        "hostile": hostile.run,
        "gate": gate.run,
        "big": big.run,
        "many": many.run,
        "recall": speed.run,
        "lineage": lineage.run,
        "apps": apps.run,
        "across": across.run,
        "agents": agents.run,
        "pages": pages.run,
        "path": path.run,
        "size": size.run,
        "scale": scale.run,
        "released": released.run,
    }


if __name__ == "__main__":
    main(sys.argv[1])

"""Replay one policy in a process of its own: `python -m memory.lab.child FOLDER POLICY`.

The database is the one that `DATABASE_URL` names: a new file in FOLDER, which is migrated here. The work is read from
`work.json`, and the runs are written to `POLICY.json`. After each turn a byte is written to standard output, so that
the parent process sees the progress, and so that this process ends when its parent has.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
from pydantic import TypeAdapter

from memory.lab.conversation import Conversation
from memory.lab.measures import Run

WORK = "work.json"

LOWER = 5
"""Steps of priority below the parent process: a server on the same machine comes first."""


@dataclass(frozen=True, slots=True)
class LabWork:
    """What a child is to play: talks, in chats with those of `options` that its policy has."""

    talks: tuple[Conversation, ...]
    options: dict[str, Any]


def main(folder: Path, policy: str) -> None:
    """Play all talks under `policy`."""
    os.nice(LOWER)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    from django.core.management import call_command  # needs the settings

    from memory.lab.replay import play

    call_command("migrate", verbosity=0, interactive=False)
    work = TypeAdapter(LabWork).validate_json((folder / WORK).read_bytes())
    runs = [play(talk, policy, _tell, work.options) for talk in work.talks]
    (folder / f"{policy}.json").write_bytes(TypeAdapter(list[Run]).dump_json(runs))


def _tell() -> None:
    sys.stdout.write(".")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

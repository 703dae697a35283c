"""Replay one policy in a process of its own: `python -m memory.lab.child FOLDER POLICY OPTIONS`.

The database is the one that `DATABASE_URL` names: a new file in FOLDER, which is migrated here. The talks are read
from `talks.json`, OPTIONS are the chats' options as JSON, and the runs are written to `POLICY.json`. After each turn
a line is written to standard output, so that the parent process sees the progress, and so that this process ends when
nobody reads it any more.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import django

TALKS = "talks.json"

LOWER = 5
"""Steps of priority below the parent process: a server on the same machine comes first."""


def main(folder: Path, policy: str, options: str) -> None:
    """Play all talks under `policy`, with those of `options` that the policy has."""
    os.nice(LOWER)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    from django.core.management import call_command  # needs the settings

    from memory.lab.conversation import Conversation
    from memory.lab.replay import play
    from memory.policies import POLICIES
    from memory.policies.options import effective_options

    call_command("migrate", verbosity=0, interactive=False)
    talks = [
        Conversation.from_json(data) for data in json.loads((folder / TALKS).read_text(encoding="utf-8"))
    ]
    given = effective_options(POLICIES[policy], json.loads(options))
    runs = [play(talk, policy, _tell, given).to_json() for talk in talks]
    (folder / f"{policy}.json").write_text(json.dumps(runs), encoding="utf-8")


def _tell(turns: int) -> None:
    sys.stdout.write(f"{turns}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:4])

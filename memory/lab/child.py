"""One policy in a process of its own: `python -m memory.lab.child FOLDER POLICY OPTIONS`.

The database is the one that `DATABASE_URL` names: a new file in FOLDER. It is made here; the talks are read from
`talks.json`, OPTIONS are those of the chats as JSON, the runs are written to `POLICY.json`. After each turn a line goes
to standard output, so that whoever started this can tell how far it is, and so that this ends when nobody listens any
more.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import django

TALKS = "talks.json"

LOWER = 5
"""Steps of priority below who started this: a server on the same machine comes first."""


def main(folder: Path, policy: str, options: str) -> None:
    """Play all talks under `policy`, with those of `options` that it has."""
    os.nice(LOWER)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    from django.core.management import call_command  # needs the settings

    from memory.lab.conversation import Conversation
    from memory.lab.replay import play
    from memory.policies import POLICIES
    from memory.policies.options import chosen

    call_command("migrate", verbosity=0, interactive=False)
    talks = [
        Conversation.from_json(data) for data in json.loads((folder / TALKS).read_text(encoding="utf-8"))
    ]
    given = chosen(POLICIES[policy], json.loads(options))
    runs = [play(talk, policy, _tell, given).to_json() for talk in talks]
    (folder / f"{policy}.json").write_text(json.dumps(runs), encoding="utf-8")


def _tell(turns: int) -> None:
    sys.stdout.write(f"{turns}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:4])

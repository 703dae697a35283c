"""What a first look needs in the database: a staff user, a demo user with a token, a sample chat with its memory.

Done again, it finds what it made: the database has password and token hashed, so the file `quickstart.json` beside it
keeps them, for its owner's eyes alone.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from knox.crypto import hash_token
from knox.models import AuthToken

from chatmemory.llm import registry
from conversations.interchange.read import read_chats
from conversations.interchange.to_rows import import_chat
from conversations.models import Chat
from conversations.sample import SAMPLE, with_summaries

ADMIN = "admin"
DEMO = "demo"


@dataclass(frozen=True, slots=True)
class QuickstartData:
    """What was made or found. No password where the staff user is not ours: it is left as it was."""

    admin_password: str
    demo_token: str
    chat_id: str


def folder() -> Path:
    """Where quickstart keeps its file and logs: beside the SQLite database, else in `var/`."""
    if settings.IS_SQLITE:
        return Path(settings.DATABASES["default"]["NAME"]).absolute().parent
    return Path(settings.VAR_DIR)


def prepare() -> QuickstartData:
    """Make what is missing. The tables are there; the sample is folded here only if that asks no upstream."""
    path = folder() / "quickstart.json"
    kept = _read(path)
    demo, _ = User.objects.get_or_create(
        username=DEMO, defaults={"password": "!"}
    )  # the token is its only way in
    prepared = QuickstartData(
        admin_password=_admin_password(kept.get("admin_password", "")),
        demo_token=_token(demo, kept.get("demo_token", "")),
        chat_id=_sample(demo),
    )
    _write(path, prepared)
    return prepared


def _admin_password(kept: str) -> str:
    admin = User.objects.filter(username=ADMIN).first()
    if admin is not None:
        return kept if kept and admin.check_password(kept) else ""
    password = kept or secrets.token_urlsafe(12)
    User.objects.create_superuser(ADMIN, password=password)
    return password


def _token(demo: User, kept: str) -> str:
    if kept and AuthToken.objects.filter(user=demo, expiry=None, digest=hash_token(kept)).exists():
        return kept
    _, token = AuthToken.objects.create(demo, expiry=None)
    return str(token)


def _sample(demo: User) -> str:
    (sample,) = read_chats(SAMPLE.read_text(encoding="utf-8"))
    found = Chat.objects.filter(owner=demo, title=sample.title).order_by("pk").first()
    if found is not None:
        return str(found.pk)
    chat_id = str(import_chat(demo, sample).pk)
    if registry.is_offline():
        with registry.watched_by(with_summaries):
            call_command("resummarize", chat_id, sync=True, stdout=_Unheard())
    return chat_id


class _Unheard:
    """A place for the output of a command that nobody reads."""

    def write(self, text: str) -> None:
        """Forget `text`."""


def _read(path: Path) -> Mapping[str, str]:
    """What was kept. A file that is not ours to understand counts as none."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return (
        {name: value for name, value in kept.items() if isinstance(value, str)}
        if isinstance(kept, dict)
        else {}
    )


def _write(path: Path, prepared: QuickstartData) -> None:
    """Replace the file as a whole, readable by its owner alone from its first byte."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(
            {"admin_password": prepared.admin_password, "demo_token": prepared.demo_token}, file, indent=2
        )
    new.replace(path)

"""Database contents for a first look: a staff user, a demo user with a token, and a sample chat with its memory.

A second run finds what the first one made. The database only has hashes of password and token, so the file
`quickstart.json` next to it keeps them, readable only by its owner.
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
from conversations.interchange.rows import import_chat
from conversations.models import Chat
from conversations.sample import SAMPLE, with_summaries

PRINTED_LINK = "_QUICKSTART_TOKEN_SHA256"
"""The environment variable by which the command tells its server the hash of the token in the link that it prints.

The playground signs in with that token at once. A link with any other token may come from somebody who wants to read
what others write into their account: for those the page asks first, naming the account.
"""
ADMIN = "admin"
DEMO = "demo"


@dataclass(frozen=True, slots=True)
class QuickstartData:
    """What was made or found. The password is empty if the staff user has another one, which is not changed."""

    admin_password: str
    demo_token: str
    chat_id: str


def folder() -> Path:
    """Return the folder of quickstart's file and logs: next to the SQLite database, else `var/`."""
    if settings.IS_SQLITE:
        return Path(settings.DATABASES["default"]["NAME"]).absolute().parent
    return Path(settings.VAR_DIR)


def prepare() -> QuickstartData:
    """Create what is missing. The tables must exist. The sample is folded here only if that calls no upstream."""
    path = folder() / "quickstart.json"
    kept = _read(path)
    demo, _ = User.objects.get_or_create(
        username=DEMO, defaults={"password": "!"}
    )  # it has no password, only the token
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
        with registry.wrap_models(with_summaries):
            call_command("resummarize", chat_id, sync=True, stdout=_NullOutput())
    return chat_id


class _NullOutput:
    """An output stream for a command whose output is discarded."""

    def write(self, text: str) -> None:
        """Discard `text`."""


def _read(path: Path) -> Mapping[str, str]:
    """Return what was kept; nothing if the file is missing or malformed."""
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
    """Replace the file atomically; it is readable only by its owner from its first byte."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(
            {"admin_password": prepared.admin_password, "demo_token": prepared.demo_token}, file, indent=2
        )
    new.replace(path)

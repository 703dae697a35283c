"""Backups as docs/backup.md makes them: a restore gives what was there, although a server was writing.

What was erased after the backup is erased again from the log of docs/retention.md.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.image import ROOT
from tests.support.processes import Product, scratch

POSTGRES = os.environ.get("POSTGRES_URL", "")
PAGE = (ROOT / "docs" / "backup.md").read_text()
pytestmark = [pytest.mark.processes, pytest.mark.services]


def shell(command: str, folder: Path, **env: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, **env}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FILL = f"""
from django.core.management import call_command
from conversations.models import Chat
call_command("migrate", verbosity=0)
call_command("createsuperuser", interactive=False, username="alice", email="a@b.example")
call_command("import_chat", "{ROOT}/conversations/samples/trip.json", user="alice")
print(Chat.objects.get().pk)
"""


def filled(folder: Path, url: str) -> tuple[Product, str, str]:
    """The product on a new database with a chat, the chat's id, and its export."""
    product = Product(folder, url)
    chat = product.manage("shell", "--verbosity", "0", "--command", FILL).split()[-1]
    return product, chat, product.manage("export_chat", chat)


def forgotten(product: Product, restored: Product, folder: Path) -> None:
    """Erase the user where the backup came from, and again where it went, by the commands of the page."""
    page = (ROOT / "docs" / "retention.md").read_text()
    (looked,) = re.findall(r"```bash\n(.*?)\n```", page, re.DOTALL)
    (kept,) = re.findall(r"^\S+ \* \* \* \* (.+)$", page, re.MULTILINE)
    (replay,) = re.findall(r"^(.*--replay.*)$", page, re.MULTILINE)
    here = {"/backup": str(folder), "/srv/chatmemory": str(ROOT), ".venv/bin/python": sys.executable}

    def done(line: str, of: Product) -> str:
        for name, path in here.items():
            line = line.replace(name, path)
        return shell(line, ROOT, **of.environment({}))

    assert "server" not in done(f".venv/bin/python {looked}", product)  # RETENTION_DAYS is 0
    product.manage("forget_user", "alice", "--yes")
    done(kept, product)
    assert "Erased: 1. Already gone: 1." in done(replay, restored)
    assert restored.manage("memory").splitlines()[1:] == []
    assert "Erased: 0. Already gone: 2." in done(replay, restored)


@pytest.mark.skipif(not shutil.which("sqlite3"), reason="there is no sqlite3 on this machine")
def test_sqlite(tmp_path: Path) -> None:
    command = "sqlite3 var/chatmemory.sqlite3 \".backup 'chatmemory-backup.sqlite3'\""
    assert command in PAGE
    (tmp_path / "var").mkdir()
    with scratch(tmp_path / "var") as url:
        product, chat, before = filled(tmp_path, url)
        shell(command.replace("chatmemory.sqlite3", "scratch.sqlite3"), tmp_path)
        restored = Product(tmp_path, f"sqlite:///{tmp_path}/chatmemory-backup.sqlite3")
        restored.manage("migrate")
        assert restored.manage("export_chat", chat) == before
        forgotten(product, restored, tmp_path)
        product.stop()


@pytest.mark.skipif(not POSTGRES, reason="POSTGRES_URL names no server")
@pytest.mark.skipif(not shutil.which("pg_dump"), reason="there is no pg_dump on this machine")
def test_postgresql(tmp_path: Path) -> None:
    dump = 'pg_dump --format=custom --file=chatmemory.dump "$DATABASE_URL"'
    load = 'pg_restore --no-owner --dbname="postgres://…/chatmemory_restored" chatmemory.dump'
    assert dump in PAGE
    assert load in PAGE
    with scratch(tmp_path, POSTGRES) as url, scratch(tmp_path, POSTGRES) as empty:
        assert urlsplit(url).path != urlsplit(empty).path
        product, chat, before = filled(tmp_path, url)
        shell(dump, tmp_path, DATABASE_URL=url)
        shell(load.replace("postgres://…/chatmemory_restored", empty), tmp_path)
        restored = Product(tmp_path, empty)
        restored.manage("migrate")
        assert restored.manage("export_chat", chat) == before
        product.stop()

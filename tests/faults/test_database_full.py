"""A full disk under the database: writing gets a 503, reading works, and with free space all recovers."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from django.conf import settings

from tests.api.talking import Turn, heard, hold_replies
from tests.faults.bench.postgres import PrivatePostgres, bindir, unprivileged_user
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.support.processes import Product

pytestmark = [pytest.mark.processes, pytest.mark.slow]

LARGE = Random(18).randbytes(75_000).hex()
"""A message that needs new space: small ones fit into existing pages. Random, so it does not compress well."""
MANY = 300
ISSUE_TOKEN = """
from django.contrib.auth.models import User
from knox.models import AuthToken
print(AuthToken.objects.create(User.objects.create(username="alice"))[1])
"""
CHECK = """
from conversations.models import ActiveReply
from tests.support.waiting import wait_for
from tests.support.invariants import check_all
wait_for(lambda: not ActiveReply.objects.exists(), timeout=60)
check_all()
"""


@dataclass(frozen=True)
class Disk:
    """A small file system at `folder`: a tmpfs of its own, which requires the right to mount."""

    folder: Path

    def fill(self) -> None:
        """Fill all free space."""
        with (self.folder / "ballast").open("ab", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096):
                    pass
            except OSError:
                return

    def free(self) -> None:
        """Free the space again."""
        (self.folder / "ballast").unlink()


@pytest.fixture
def disk() -> Iterator[Disk]:
    """A disk of 40 MB that anyone may write to."""
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("nothing may be mounted here")
    folder = Path(tempfile.mkdtemp(prefix="small-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m,mode=0777", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True).returncode == 0
    try:
        if not mounted:
            pytest.skip("nothing may be mounted here")
        yield Disk(folder)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()


@pytest.fixture
def database_url(request: pytest.FixtureRequest, disk: Disk) -> Iterator[str]:
    """The URL of a database of this run's kind, with all its tables on that disk."""
    if settings.IS_SQLITE:
        yield f"sqlite:///{disk.folder / 'db.sqlite3'}"
        return
    server: PrivatePostgres = request.getfixturevalue("private_server")
    space = disk.folder / "space"
    space.mkdir(mode=0o777)
    space.chmod(0o777)
    if user := unprivileged_user():
        shutil.chown(space, user)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
        admin.execute("CREATE DATABASE small TABLESPACE small")
        try:
            yield urlsplit(request.getfixturevalue("private_url"))._replace(path="/small").geturl()
        finally:
            admin.execute("DROP DATABASE small WITH (FORCE)")
            admin.execute("DROP TABLESPACE small")


@pytest.mark.promise("P18")
def test_a_full_disk_refuses_to_write_and_nothing_else(
    database_url: str, disk: Disk, fake: FakeUpstream, tmp_path: Path
) -> None:
    with Product(tmp_path, database_url, LOG_LEVEL="INFO") as product:
        product.use(fake)
        product.manage("migrate", "--verbosity", "0")
        product.server()
        client = Client(product.url, product.manage("shell", "--verbosity", "0", "-c", ISSUE_TOKEN).split()[-1])
        product.clients.append(client)
        chat = client.ask("Before")["chat_id"]
        hold_replies(fake)
        with client.stream("POST", "message", json={"message": "In between", "chat_id": chat}) as events:
            turn = Turn.of(next(events).data)
            said = heard(events)
            disk.fill()
            _refused(client)
            _reads_go_on(client, turn)
            fake.release()
            said += heard(events, 1)  # a reply being written is still streamed
            disk.free()
            rest = list(events)
        assert rest[-1].data["message"]["content"] == said + joined(rest)
        assert rest[-1].name == "message.completed"
        fake.behave("normal")
        assert client.ask("After", chat)["message"]["status"] == "complete"
        assert client.ask(LARGE)["message"]["status"] == "complete"
        product.manage("shell", "--verbosity", "0", "-c", CHECK)
    _is_sound(database_url)


def _refused(client: Client) -> None:
    """Send until the disk is full; the refusal is a correct error."""
    for _ in range(MANY):
        with client.http.stream("POST", "/v1/message/first", json={"message": LARGE}) as answer:
            if answer.status_code != 200:
                answer.read()
                break
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1


def _reads_go_on(client: Client, turn: Turn) -> None:
    first = client.get(f"chats/{turn.chat}/messages").json()["results"][0]
    assert first["content"] == "Before"
    assert client.get("chats").status_code == client.get(f"chats/{turn.chat}/brief").status_code == 200
    assert httpx.get(f"{client.base}/healthz").status_code == 200
    not_ready = httpx.get(f"{client.base}/readyz").json().get("error", {}).get("details", {})
    assert "database" not in not_ready


def _is_sound(url: str) -> None:
    """Check that no repair was needed: the database's own check finds nothing."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as found:
            assert found.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found.close()
        return
    at = urlsplit(url)
    where = f"--host={at.hostname} --port={at.port} --username=postgres --database={at.path[1:]}".split()
    command = [str(bindir() / "pg_amcheck"), "--install-missing", "--heapallindexed", *where]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, ""), checked.stdout + checked.stderr

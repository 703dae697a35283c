"""PgBouncer in front of a PostgreSQL, with `deploy/pgbouncer.ini` except for addresses and passwords.

As a program, it runs a command whose DATABASE_URL leads through PgBouncer:

    DATABASE_URL=postgres://… python -m tests.faults.bench.pgbouncer pytest -m promise
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.faults.bench.postgres import unprivileged_user
from tests.support.ports import free_port
from tests.support.waiting import wait_for

FILE = Path(__file__).resolve().parents[3] / "deploy" / "pgbouncer.ini"
POOLER = "THROUGH_PGBOUNCER"
"""The variable that is set for a command run by this program."""


def program() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def pgbouncer(url: str) -> Iterator[str]:
    """Run PgBouncer in front of the server of `url`; yield the URL of the same database through it."""
    at, port = urlsplit(url), free_port()
    folder, user = Path(tempfile.mkdtemp(prefix="pgbouncer-")), unprivileged_user()
    text = FILE.read_text()
    for ours, here in (
        ("host=127.0.0.1 port=5432", f"host={at.hostname} port={at.port or 5432} user={at.username}"),
        ("listen_port = 6432", f"listen_port = {port}\nunix_socket_dir ="),
        ("auth_type = scram-sha-256", "auth_type = any"),
        ("auth_file = /etc/pgbouncer/userlist.txt\n", ""),
    ):
        assert ours in text
        text = text.replace(ours, here)
    file = folder / "pgbouncer.ini"
    file.write_text(text)
    if user is not None:
        shutil.chown(folder, user)
    command = [program() or "pgbouncer", "--quiet", str(file)]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, user=user, cwd="/", stdout=log, stderr=log)
    pooled = at._replace(netloc=f"{at.username}@127.0.0.1:{port}").geturl()
    try:
        wait_for(lambda: answers(pooled), "an answer through PgBouncer", timeout=20)
        yield pooled
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def as_asked(url: str) -> Iterator[str]:
    """Yield the URL through PgBouncer if this process was started by this program, else the URL itself."""
    if not os.environ.get(POOLER):
        yield url
        return
    with pgbouncer(url) as pooled:
        yield pooled


def answers(url: str) -> bool:
    try:
        psycopg.connect(urlsplit(url)._replace(path="/postgres").geturl(), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


if __name__ == "__main__":
    with pgbouncer(os.environ["DATABASE_URL"]) as through:
        sys.exit(subprocess.run(sys.argv[1:], env={**os.environ, "DATABASE_URL": through, POOLER: "1"}).returncode)

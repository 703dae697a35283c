"""An upgrade without a pause: first the schema, then the servers, then the workers, while people use the product.

The old version is a commit of this repository's own history (`old_tree`).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings

from tests.faults.bench.bench import Load
from tests.processes.callers import Caller, Rotation
from tests.support.exhaustive import effort
from tests.support.processes import Child, Product, scratch
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

CALLERS = 4
CALLS = 40
"""How many calls each step of the upgrade sees at least."""
NUMBERS = {
    "MEMORY_K_RAW_TURNS": "2",
    "MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "400",
    "MEMORY_PROMPT_TOKEN_BUDGET": "900",
    "MEMORY_SUMMARY_TOKEN_CAP": "200",
    "REPLY_DRAIN_SECONDS": "60",  # longer than any reply takes here, so that none is cut off
    "LOG_LEVEL": "INFO",
    # Counted, and never reached.
    "RATE_LIMITS": "on",
    "LIMIT_REQUESTS_PER_MINUTE": "100000",
    "LIMIT_TOKENS_PER_DAY": "1000000000",
    "LIMIT_RESUMMARIZE_PER_HOUR": "100000",
}
LONG_CHATS = effort(5, 500)
"""Chats of `LONG` turns each that are there before: what the upgrade must fill without a pause."""
LONG = 1_000
LONGEST_SECONDS = 1800.0
SLOWEST_SECONDS = 10.0
"""Clients wait longer. A call waits for a moment where a table changes, and for its share of two cores."""
FILL = f"""
from django.contrib.auth.models import User
from django.db import connection
from benchmarks.chats import make_chat
from memory.recall import index

with connection.cursor() as cursor:
    cursor.execute(f"DROP INDEX {{index.INDEX}}")  # it is made faster at once
for number in range({LONG_CHATS}):
    make_chat(User.objects.create_user(f"before{{number}}"), {LONG}, unfolded=1)
index.ensure()
"""
CHECK = """
from django.contrib.auth.models import User
from memory.worker import sweep
from tests.faults.bench.checks import unsettled
from tests.support.invariants import check_all
from tests.support.waiting import wait_for

users = list(User.objects.filter(username__startswith="user"))
names = [user.username for user in users]
wait_for(lambda: sweep.sweep() is not None and not unsettled(names), "everything at rest")
check_all(users)
"""
WRONG_OWNERS = """
SELECT count(*) FROM {} one JOIN {} other ON other.id = one.{} WHERE one.owner_id <> other.owner_id
"""
REFERENCES = (
    ("conversations_message", "conversations_chat", "chat_id"),
    ("memory_conversationbrief", "conversations_chat", "chat_id"),
    ("memory_summaryrevision", "conversations_chat", "chat_id"),
    ("memory_contextrecord", "conversations_message", "reply_id"),
)


@pytest.fixture
def versions(old_tree: Path, tmp_path: Path) -> Iterator[tuple[Product, Product]]:
    """The old and the new version on one database, which has the old one's tables."""
    if settings.IS_SQLITE:
        pytest.skip("Two versions at once need PostgreSQL.")
    with scratch(tmp_path, settings.DATABASE_URL) as url:
        folders = tmp_path / "old", tmp_path / "new"
        for folder in folders:
            folder.mkdir()
        with Product(folders[0], url, **NUMBERS) as old, Product(folders[1], url, **NUMBERS) as new:
            old.root = old_tree
            old.manage("migrate", "--verbosity", "0")
            yield old, new
            # A server that stops refuses what reaches it; what is refused by any other has failed its caller.
            found = [one for one in old.errors() if not one["event"].startswith("Service Unavailable: /v1/")]
            assert found + new.errors() == []


def test_rolling_upgrade_fails_no_request(versions: tuple[Product, Product]) -> None:
    old, new = versions
    run(old, "shell", "-c", FILL)
    old_server, old_worker = old.server(), old.worker()
    rotation = Rotation([old.url])
    tokens = [old.manage("create_token", f"user{at}", "--create").split()[-1] for at in range(CALLERS)]
    callers = [Caller(f"user{at}", token, rotation) for at, token in enumerate(tokens)]
    folds = partial(more_folds, old)
    with Load(callers, Caller.round):
        folds(rotation)
        run(new, "migrate")
        folds(rotation)  # the old version alone, on the new tables
        new.server()
        rotation.servers.append(new.url)
        folds(rotation)  # what the new server asks for is folded by the old worker
        new.worker()
        end(old_worker)
        folds(rotation)  # and the other way round
        rotation.stop(old.url)
        end(old_server)
        folds(rotation)  # the new version alone
    assert rotation.failed == []
    assert len(rotation.drained) <= CALLERS, "only what was under way may be sent again"
    for caller in callers:
        caller.compare()
    assert rotation.slowest < SLOWEST_SECONDS
    new.manage("shell", "--verbosity", "0", "-c", CHECK)
    with connect(new) as database:
        for reference in REFERENCES:
            assert database.execute(WRONG_OWNERS.format(*reference)).fetchone() == (0,)


def more_folds(product: Product, rotation: Rotation, number: int = 2) -> None:
    """Wait until more calls and folds are done."""
    with connect(product) as database:

        def folds() -> int:
            (count,) = database.execute("SELECT count(*) FROM memory_summaryrevision").fetchone() or (0,)
            return int(count)

        enough = folds() + number
        rotation.more(CALLS)
        wait_for(lambda: folds() >= enough or rotation.failed, f"{number} more folds")
    assert rotation.failed == []


def connect(product: Product) -> psycopg.Connection:
    url = urlsplit(product.env["DATABASE_URL"])._replace(scheme="postgresql").geturl()
    return psycopg.connect(url, autocommit=True)


def run(product: Product, *arguments: str) -> None:
    """Run a command that takes as long as the database is large."""
    child = product.command(*arguments)
    wait_for(lambda: child.exit_code is not None, f"the end of {child.name}", timeout=LONGEST_SECONDS)
    assert child.exit_code == 0


def end(child: Child) -> None:
    """Tell a process to stop, as a deployment does, and wait until it has."""
    child.process.terminate()
    wait_for(lambda: child.exit_code is not None, f"the end of {child.name}")

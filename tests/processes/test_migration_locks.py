"""No migration stops the servers of the version before, however large a table is: what the check finds, and ours."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings
from django.db import connection, transaction

from tests.support import migration_locks
from tests.support.migration_locks import MANY, watching
from tests.support.processes import ROOT, Product, scratch

pytestmark = [
    pytest.mark.skipif(settings.IS_SQLITE, reason="SQLite's tables are migrated while nobody uses them"),
    pytest.mark.postgres,
]

SEED = f"""
INSERT INTO auth_user (id, password, is_superuser, username, first_name, last_name, email, is_staff, is_active,
    date_joined) VALUES (1, '', false, 'alice', '', '', '', false, true, now());
INSERT INTO conversations_chat (id, title, policy, options, instructions, metadata, last_seq, created_at, updated_at,
    owner_id) SELECT gen_random_uuid(), '', 'chunked', '{{}}', '', '{{}}', 1, now(), now(), 1
    FROM generate_series(1, {2 * MANY});
INSERT INTO conversations_message (id, chat_id, seq, role, content, status, model_variant, model, token_count, outline,
    line, terms, response_id, metadata, created_at)
    SELECT gen_random_uuid(), id, 1, 'user', '', 'complete', '', '', 1, '', '', '', '', '{{}}', now()
    FROM conversations_chat;
"""
"""More rows than one transaction may change, in the two largest tables."""


@pytest.fixture
def things(db: None) -> Iterator[None]:
    """Two tables that were there before, one with many rows."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE others (id integer PRIMARY KEY)")
        cursor.execute("CREATE TABLE things (id integer PRIMARY KEY, size integer, other_id integer)")
        cursor.execute(f"INSERT INTO things SELECT i, i FROM generate_series(1, {2 * MANY}) i")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS things, others, items CASCADE")


def found_in(*statements: str) -> list[str]:
    """What is found in a migration of these statements, each in a transaction of its own."""
    with watching(connection) as watch, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    return watch.found


BAD = {
    "ALTER TABLE things ADD COLUMN at timestamptz NOT NULL DEFAULT clock_timestamp()": "rewrites things",
    "ALTER TABLE things ALTER COLUMN size TYPE bigint": "rewrites things",
    "ALTER TABLE things ALTER COLUMN size SET NOT NULL": "under a lock",
    "ALTER TABLE things ADD CONSTRAINT c CHECK (size > 0)": "under a lock",
    "ALTER TABLE things ADD CONSTRAINT f FOREIGN KEY (other_id) REFERENCES others (id)": "under a lock",
    "ALTER TABLE things ADD CONSTRAINT u UNIQUE (size)": "under a lock",
    "CREATE INDEX i ON things (size)": "under a lock",
    "UPDATE things SET size = 1": f"changes {2 * MANY} rows of things",
    "DELETE FROM things": f"changes {2 * MANY} rows of things",
    "DO $$ BEGIN UPDATE things SET size = 1; END $$": f"changes {2 * MANY} rows of things",
    "LOCK TABLE things IN SHARE MODE; SELECT count(*) FROM things": "under a lock",
    "ALTER TABLE things DROP COLUMN size": "takes size integer from things",
    "ALTER TABLE things RENAME COLUMN size TO weight": "takes size integer from things",
    "ALTER TABLE things RENAME TO items": "drops or renames things",
    "DROP TABLE things": "drops or renames things",
}
GOOD = [
    ["ALTER TABLE things ADD COLUMN weight integer NOT NULL DEFAULT 0"],
    ["ALTER TABLE things ADD COLUMN at timestamptz NOT NULL DEFAULT statement_timestamp()"],
    ["ALTER TABLE things ADD COLUMN weight integer REFERENCES others (id)"],
    [
        "ALTER TABLE things ADD CONSTRAINT c CHECK (size > 0) NOT VALID",
        "ALTER TABLE things VALIDATE CONSTRAINT c",
    ],
    [
        "ALTER TABLE things ADD CONSTRAINT c CHECK (size IS NOT NULL) NOT VALID",
        "ALTER TABLE things VALIDATE CONSTRAINT c",
        "ALTER TABLE things ALTER COLUMN size SET NOT NULL",
    ],
    [
        "ALTER TABLE things ADD CONSTRAINT f FOREIGN KEY (other_id) REFERENCES others (id) NOT VALID",
        "ALTER TABLE things VALIDATE CONSTRAINT f",
    ],
    [
        "CREATE UNIQUE INDEX CONCURRENTLY u ON things (size)",
        "ALTER TABLE things ADD CONSTRAINT u UNIQUE USING INDEX u",
    ],
    [f"UPDATE things SET size = 1 WHERE id <= {MANY}", f"UPDATE things SET size = 1 WHERE id > {MANY}"],
    [
        "CREATE TABLE items AS SELECT * FROM things",
        "CREATE INDEX i ON items (size)",
        "UPDATE items SET size = 1",
    ],
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statement", BAD)
def test_blocking_migration_is_detected(things: None, statement: str) -> None:
    assert BAD[statement] in " · ".join(found_in(statement))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statements", GOOD)
def test_harmless_migration_is_not_reported(things: None, statements: list[str]) -> None:
    assert found_in(*statements) == []


@pytest.mark.django_db(transaction=True)
def test_a_lock_is_remembered_within_its_transaction(things: None) -> None:
    with watching(connection) as watch, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE things ADD COLUMN weight integer")
        cursor.execute("UPDATE things SET weight = 0 WHERE id = 1")
    assert "reads or writes things under a lock" in watch.found[0]


@pytest.mark.exhaustive
@pytest.mark.processes
def test_no_migration_of_ours_stops_others(old_tree: Path, tmp_path: Path) -> None:
    with scratch(tmp_path, settings.DATABASE_URL) as url, Product(tmp_path, url) as product:
        product.root = old_tree
        product.manage("migrate", "--verbosity", "0")
        with psycopg.connect(urlsplit(url)._replace(scheme="postgresql").geturl(), autocommit=True) as opened:
            opened.execute(SEED)
        watched = subprocess.run(
            [sys.executable, "-m", migration_locks.__name__],
            cwd=ROOT,
            env={**product.environment({}), "DJANGO_SETTINGS_MODULE": "chatmemory.settings"},
            capture_output=True,
            text=True,
        )
        assert (watched.returncode, watched.stdout.strip()) == (0, ""), watched.stdout + watched.stderr

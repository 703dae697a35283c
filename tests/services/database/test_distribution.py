"""`manage.py distribute` for Citus, on a database that has functions of the names of Citus' own.

As Citus does, they make tables again that refer to copied ones, whose ids then begin at 1.
"""

from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import Count

from chatmemory.database.distribution import EVERYWHERE, FIRST, statements
from chatmemory.database.owned import Owned, owned_tables
from chatmemory.llm.protocol import Reply
from conversations.accounts.models import Allowance
from conversations.chat_lifecycle import delete_chat
from conversations.management.commands import distribute as command
from conversations.models import Chat, ContentView
from conversations.replies.begin import begin_turn, default_variant
from conversations.replies.finish import finish
from conversations.replies.reply import BegunTurn, Ending, TurnRequest
from memory.models import ConversationBrief
from tests.support.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

FUNCTIONS = """
CREATE TABLE calls (number serial, function text, name text, owner text, beside text);
CREATE FUNCTION create_reference_table(regclass) RETURNS void LANGUAGE sql AS $$
    SELECT setval(pg_get_serial_sequence('conversations_contentview', 'id'), 1, false);
    INSERT INTO calls (function, name) VALUES ('reference', $1);
$$;
CREATE FUNCTION create_distributed_table(regclass, text, colocate_with text DEFAULT '') RETURNS void LANGUAGE sql AS
    $$ INSERT INTO calls (function, name, owner, beside) VALUES ('distributed', $1, $2, $3) $$;
CREATE FUNCTION truncate_local_data_after_distributing_table(regclass) RETURNS void LANGUAGE sql AS
    $$ INSERT INTO calls (function, name) VALUES ('truncate', $1) $$;
"""
KEYS = """
SELECT conrelid::regclass::text, confrelid::regclass::text, conname,
    ARRAY(SELECT a.attname::text || '=' || b.attname::text FROM unnest(conkey, confkey) k(mine, theirs)
        JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = mine
        JOIN pg_attribute b ON b.attrelid = confrelid AND b.attnum = theirs)
FROM pg_constraint WHERE contype = 'f' AND convalidated
"""
UNIQUE = """
SELECT indrelid::regclass::text, indexrelid::regclass::text,
    ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY(indkey))
FROM pg_index WHERE indisunique
"""


def rows(sql: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def distribute() -> None:
    with connection.cursor() as cursor:
        cursor.execute(FUNCTIONS)
        for statement in statements(connection):
            cursor.execute(statement)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="its catalog")
def test_distribute_spreads_rows_of_owners_by_owner_side_by_side() -> None:
    distribute()
    owners, calls = owned_tables(), rows("SELECT function, name, owner, beside FROM calls ORDER BY number")
    assert calls[: len(EVERYWHERE) + 1] == [
        *(("reference", name, None, None) for name in EVERYWHERE),
        ("distributed", FIRST, "owner_id", ""),
    ]
    rest = {(name, owner) for kind, name, owner, beside in calls if kind == "distributed" and beside == FIRST}
    assert rest == {*owners.items()} - {(FIRST, "owner_id")}
    assert {name for kind, name, _, _ in calls if kind == "truncate"} == {*owners, *EVERYWHERE}


@pytest.mark.skipif(connection.vendor != "postgresql", reason="its catalog")
def test_distribute_adds_the_owner_to_each_key_among_rows_of_owners() -> None:
    owners, before = owned_tables(), {name for _, _, name, _ in rows(KEYS)}
    distribute()
    keys, unique = rows(KEYS), rows(UNIQUE)
    assert {table for table, _, _ in unique} >= set(owners)
    assert [name for table, name, columns in unique if owners.get(table, columns[0]) not in columns] == []
    assert {name for _, _, name, _ in keys} == before
    assert [
        name
        for table, target, name, pairs in keys
        if table in owners
        and target not in EVERYWHERE
        and not (target in owners and f"{owners[table]}={owners[target]}" in pairs)
    ] == []
    assert [name for table, target, name, _ in keys if target in owners and table not in owners] == []
    assert list(Chat.objects.annotate(Count("messages"))) == [], "grouped by more than half of the primary key"


@pytest.mark.skipif(connection.vendor != "postgresql", reason="its catalog")
def test_distribute_with_rows_continues_ids() -> None:
    *_, last = [ContentView.objects.create(viewer_name="boss", page="chat") for _ in range(3)]
    last_id = last.pk
    last.delete()
    distribute()
    assert ContentView.objects.create(viewer_name="boss", page="chat").pk == last_id + 1


def test_distribute_without_citus_is_refused() -> None:
    out = StringIO()
    with pytest.raises(CommandError, match="Citus"):
        call_command(command.Command(), stdout=out)
    assert out.getvalue() == ""


@pytest.mark.skipif(connection.vendor != "postgresql", reason="its catalog")
def test_distribute_dry_run_prints_statements() -> None:
    out = StringIO()
    call_command(command.Command(), dry_run=True, stdout=out)
    assert out.getvalue().splitlines() == [f"{statement};" for statement in statements(connection)]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="it checks keys at the end")
def test_a_chat_is_deleted_where_keys_are_checked_at_once() -> None:
    """As they are on Citus. Pins, a brief, a prompt, and a reply that is being written refer to its messages."""
    owner, request = make_user(), TurnRequest(message="Always answer in English.", variant=default_variant())
    begun = begin_turn(owner, request, chat_id=None)
    assert isinstance(begun, BegunTurn)
    reply = finish(begun.pending, "Yes.", Ending.of(Reply("complete")))
    ConversationBrief.objects.update(last_summarized_message=reply)
    begin_turn(owner, request, chat_id=begun.pending.chat_id, key="a key")
    models = [model for model in apps.get_models() if issubclass(model, Owned)]
    stored = {model.__name__ for model in models if model._base_manager.exists()}
    assert stored >= {"ActiveReply", "ContextRecord", "ConversationBrief", "IdempotencyKey", "Message", "Pin"}
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    delete_chat(Chat.objects.get())
    assert {model for model in models if model._base_manager.exists()} <= {Allowance}

"""The database maintains the recall index, for every way to write a message and after migrations of the table."""

import pytest
from django.core import management
from django.db import connection, models
from django.db.models.functions import Now

from conversations.models import Chat, Message, Status
from memory.recall.index import BATCH, OF_MESSAGES, ensure, merge
from memory.recall.terms import hashed, stored_terms, terms
from memory.worker.sweep import sweep
from tests.support.factories import add_turn, add_turns, make_chat, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


def indexed_seqs(chat: Chat, word: str) -> list[int]:
    """The seqs of the messages of `chat` that the index has for `word`."""
    (seqs,) = OF_MESSAGES.postings(
        chat.pk, chat.owner_id, [hashed(terms(word)[0], chat.owner_id)], before=100, limit=250
    )
    return sorted(seqs)


def test_index_finds_messages_of_every_write_path() -> None:
    chat = make_chat()
    add_turn(chat, "Where is the zeppelin?", "In the hangar.")
    add_turns(chat, [("A zeppelin again", "Yes, a zeppelin")])
    Message.objects.bulk_create(
        [
            Message(
                chat=chat,
                seq=5,
                role="user",
                content="zeppelin",
                status="complete",
                created_at=Now(),
                terms=stored_terms("zeppelin", chat.owner_id),
            )
        ]
    )
    assert indexed_seqs(chat, "zeppelin") == [1, 3, 4, 5]
    assert indexed_seqs(chat, "zeppelins") == [1, 3, 4, 5]
    assert indexed_seqs(chat, "hangar") == [2]


def test_index_drops_deleted_superseded_and_emptied() -> None:
    chat = make_chat()
    first = add_turn(chat, "one zeppelin", "two zeppelins")
    second = add_turn(chat, "three zeppelins", "four zeppelins")
    Message.objects.filter(pk=first.pk).update(superseded_by=second)
    assert indexed_seqs(chat, "zeppelin") == [1, 3, 4]
    Message.objects.filter(pk=first.pk).update(superseded_by=None)
    assert indexed_seqs(chat, "zeppelin") == [1, 2, 3, 4]
    Message.objects.filter(chat=chat, seq=3).update(status=Status.DELETED, content="", terms="")
    assert indexed_seqs(chat, "zeppelin") == [1, 2, 4]
    Message.objects.filter(chat=chat, seq=1).update(terms=stored_terms("one balloon", chat.owner_id))
    assert (indexed_seqs(chat, "zeppelin"), indexed_seqs(chat, "balloon")) == ([2, 4], [1])
    Message.objects.filter(chat=chat)._raw_delete("default")
    assert (indexed_seqs(chat, "zeppelin"), indexed_seqs(chat, "balloon")) == ([], [])


def test_two_chats_never_meet_though_their_keys_do() -> None:
    mine = make_chat(make_user("alice"), id="01900000-0000-7000-8000-000000abcdef")
    also_mine = make_chat(make_user("alice"), id="01900000-0000-7000-9000-000000abcdef")
    other = make_chat(make_user("bob"), id="01900000-0000-7000-a000-000000abcdef")
    for chat in (mine, also_mine, other):
        chat.refresh_from_db()
        add_turn(chat, "a zeppelin", "yes")
    add_turn(also_mine, "another zeppelin", "yes")
    assert [indexed_seqs(chat, "zeppelin") for chat in (mine, also_mine, other)] == [[1], [1, 3], [1]]


def test_an_altered_table_still_finds_the_right_message() -> None:
    chat = make_chat()
    add_turns(chat, [(f"word{number} zeppelin", "yes") for number in range(20)])
    field = Message._meta.get_field("model")
    wider = models.CharField(max_length=200, blank=True, default="")
    wider.set_attributes_from_name("model")
    wider.model = Message
    with connection.schema_editor() as editor:
        editor.alter_field(Message, field, wider, strict=True)
    try:
        management.call_command("migrate", verbosity=0)
        assert indexed_seqs(chat, "word7") == [15]
        add_turn(chat, "a late zeppelin", "yes")
        assert indexed_seqs(chat, "late") == [41]
        assert not ensure()
    finally:
        with connection.schema_editor() as editor:
            editor.alter_field(Message, wider, field, strict=True)
        management.call_command("migrate", verbosity=0)


def test_migration_analyses_stored_messages() -> None:
    chat = make_chat()
    add_turns(chat, [(f"word{number} zeppelin", None) for number in range(BATCH + 1)])
    Message.objects.filter(chat=chat).update(terms=None)
    assert indexed_seqs(chat, "word7") == []
    management.call_command("migrate", verbosity=0)
    assert indexed_seqs(chat, "word7") == [8]
    assert not Message.objects.filter(terms__isnull=True).exists()


def test_sweep_analyses_messages_of_older_servers() -> None:
    chat = make_chat()
    add_turn(chat, "a late zeppelin", "yes")
    Message.objects.filter(chat=chat).update(terms=None)
    assert sweep()["messages_analysed"] == 2
    assert indexed_seqs(chat, "zeppelin") == [1]
    assert sweep()["messages_analysed"] == 0


def test_merging_changes_no_find_and_leaves_fewer_parts() -> None:
    chat = make_chat()
    for number in range(30):
        add_turn(chat, f"zeppelin {number}", f"hangar {number}")
    found_before, before = indexed_seqs(chat, "zeppelin"), _parts()
    merge()
    assert indexed_seqs(chat, "zeppelin") == found_before == [*range(1, 60, 2)]
    if connection.vendor == "sqlite":
        assert 0 < _parts() < before


def _parts() -> int:
    """The number of parts (segments) of the index; 0 if the database does not show it."""
    if connection.vendor != "sqlite":
        return 0
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(DISTINCT segid) FROM {OF_MESSAGES.fts}_idx")
        return int(cursor.fetchone()[0])

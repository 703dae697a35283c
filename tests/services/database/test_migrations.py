"""Migrations take what stands in a database along: rows written by an earlier version, then migrated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps.registry import Apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

Migrate = Callable[[str, str], Apps]


@pytest.fixture
def migrate(transactional_db: None) -> Iterator[Migrate]:
    """Take an app to one of its migrations; at the end, all of them to their last."""

    def to(app: str, name: str) -> Apps:
        executor = MigrationExecutor(connection)
        executor.migrate([(app, name)])
        return MigrationExecutor(connection).loader.project_state([(app, name)]).apps

    yield to
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def test_what_was_folded_was_seen_and_options_hold(migrate: Migrate) -> None:
    old = migrate("memory", "0001_initial")
    chat = _chat(old, {"every_turns": 8})
    old.get_model("memory", "ConversationBrief").objects.create(
        chat=chat, policy="chunked", folded_through_seq=6, version=1, head=1
    )
    old.get_model("memory", "SummaryRevision").objects.create(
        chat=chat,
        version=1,
        kind="fold",
        policy="chunked",
        from_seq=1,
        through_seq=6,
        turns=3,
        tokens_before=90,
        tokens_after=30,
    )
    new = migrate("memory", "0002_policies")
    brief = new.get_model("memory", "ConversationBrief").objects.get(pk=chat.pk)
    assert (brief.seen_seq, brief.options) == (6, {"every_turns": 8})
    assert new.get_model("memory", "SummaryRevision").objects.get(chat=chat.pk).seen_seq == 6


def _chat(apps: Apps, options: dict[str, Any]) -> Any:
    owner = apps.get_model("auth", "User").objects.create(username="alice")
    return apps.get_model("conversations", "Chat").objects.create(
        owner=owner, policy="chunked", options=options
    )

"""Ids are UUIDs of version 7, so that indexes grow at their end. Order is never read from an id, but from `seq`."""

from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """Return a new UUIDv7."""
    return uuid7()

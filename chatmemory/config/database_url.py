"""The database that `DATABASE_URL` names, as Django's settings. Messages never show the URL: it carries a password."""

from __future__ import annotations

from typing import Any

import environ


def django_database(url: str) -> dict[str, Any]:
    """Django's settings for the database at a URL. Raise `ValueError` if it cannot be used."""
    if not url.startswith(("sqlite:", "postgres:", "postgresql:")):
        raise ValueError("must be a URL that starts with sqlite: or postgres: or postgresql:.")
    unreadable = ValueError(
        "cannot be read as scheme://user:password@host:port/name: the port is a number, and in the user and the "
        "password / ? # @ : are written as %2F %3F %23 %40 %3A."
    )
    try:
        found: dict[str, Any] = environ.Env.db_url_config(url)
    except ValueError:
        raise unreadable from None
    if "sqlite" in found["ENGINE"]:
        return found
    if not found["NAME"] and "service" not in found.get("OPTIONS", {}):
        raise ValueError("must end in the name of a database.")
    if "@" in found["NAME"]:  # a piece of a password
        raise unreadable
    return found

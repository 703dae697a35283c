"""Pages of OpenAI's lists: entries `after` an id, up to a `limit`, in an `order`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conversations.openai_api.errors import RequestError

LIMIT, LIMIT_MAX = 20, 100


@dataclass(frozen=True, slots=True)
class ListPage:
    """The part of a list that a client requests."""

    after: str
    limit: int
    newest_first: bool


def read_page(query: Mapping[str, str]) -> ListPage:
    """Return the page that a query requests, by default the oldest entries first. Raises `RequestError`."""
    limit, order = query.get("limit", str(LIMIT)), query.get("order", "asc")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= LIMIT_MAX:
        raise RequestError(
            f"Invalid 'limit': expected an integer from 1 to {LIMIT_MAX}.",
            param="limit",
            code="invalid_value",
        )
    if order not in ("asc", "desc"):
        raise RequestError(
            "Invalid value for 'order': supported are 'asc' and 'desc'.", param="order", code="invalid_value"
        )
    return ListPage(query.get("after", ""), int(limit), order == "desc")


def page_json(rows: Sequence[Mapping[str, Any]], limit: int) -> dict[str, Any]:
    """Return the page of `rows`, which hold one row more than `limit` if more follow."""
    shown = list(rows[:limit])
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(rows) > limit,
    }

"""Pages of OpenAI's lists: `after` an id, `limit` of them, in an `order`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conversations.openai_api.errors import RequestError

LIMIT, LIMIT_MAX = 20, 100


@dataclass(frozen=True, slots=True)
class ListPage:
    """What of a list is asked for."""

    after: str
    limit: int
    newest_first: bool


def read_page(query: Mapping[str, str]) -> ListPage:
    """The page that a query asks for, the oldest first unless it says otherwise. Raises `RequestError`."""
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
    """The page of `rows`, of which there is one more than `limit` where more follow."""
    shown = list(rows[:limit])
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(rows) > limit,
    }

"""The gate before memory: what a model wrote is kept only if it brings nothing along that nobody said.

No link, address or order may be in a new state that was not in the state before it or in what its model was shown.
Such an answer is refused whole: what else is in it came from the same pen. What a state looks like is not known here
but for its texts; cutting it to its length and taking out what nobody sees are its policy's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from memory.links import KnownLinks
from memory.orders import KnownOrders
from memory.policies.protocol import Refusal, State
from memory.turns import Turn


def check(before: State, after: State, shown: Iterable[str]) -> None:
    """Raise `Refusal` if `after` has a link or an order that neither `before` nor any text in `shown` has."""
    old = set(texts_of(before))
    new = [text for text in texts_of(after) if text not in old]
    if not new:
        return
    # A state may have been made one line since.
    known = [*old, *(" ".join(text.split()) for text in old), *shown]
    links = KnownLinks(known)
    if any(links.new_in(text) for text in new):
        raise Refusal("new_url")
    orders = KnownOrders(known)
    if any(orders.new_in(text) for text in new):
        raise Refusal("new_instruction")


def said_in(turns: Sequence[Turn]) -> list[str]:
    """What a model is shown of `turns`: each side, and how it begins behind the label under which it is shown."""
    sides = [
        side for turn in turns for side in (("User", turn.user), ("Assistant", turn.assistant)) if side[1]
    ]
    return [text for _, text in sides] + [f"{name}: {text.splitlines()[0]}" for name, text in sides]


def texts_of(state: State) -> Iterator[str]:
    """Every text of any state at all, keys included; of a summary that is a JSON object, those in it."""
    yield from strings_in(_read(state.summary))
    yield from strings_in(state.data)


def strings_in(value: object) -> Iterator[str]:
    """Every text in a JSON value, in order, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings_in(inner)


def _read(summary: str) -> object:
    """What a summary says. A card's is its wire form, in which quotation marks and backslashes are escaped."""
    if not summary.startswith("{"):
        return summary
    try:
        return json.loads(summary)
    except (ValueError, RecursionError):
        return summary

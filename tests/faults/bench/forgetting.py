"""Search for text that had to be deleted: in a dump of the database and in the logs."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from django.db import connection

from tests.faults.bench.postgres import bindir
from tests.support.database import bytes_of
from tests.support.processes import Product, here

SECONDS = 300.0


def dump() -> bytes:
    """Return everything that the database stores, as someone who obtains its files would see it."""
    if connection.vendor == "sqlite":
        found = Path(str(connection.settings_dict["NAME"]))
        return b"".join(bytes_of(path) for path in found.parent.glob(f"{found.name}*"))
    done = subprocess.run([bindir() / "pg_dump", "--dbname", here()], capture_output=True, check=True)
    return done.stdout


def traces(product: Product, *words: str) -> list[str]:
    """Return the places where any of the words still is, in any encoding."""
    places = {
        "the dump": dump().lower(),
        "the logs": product.log_text().lower().encode(),
    }
    return [
        f"{word} in {name}"
        for name, text in places.items()
        for word in words
        if word.lower().encode() in text
    ]


def gone(product: Product, *words: str) -> float:
    """Wait until the words are nowhere, sweeping as the schedule does. Return the seconds it took."""
    begun = time.monotonic()
    left = traces(product, *words)
    while left:
        assert time.monotonic() - begun < SECONDS, left
        product.manage("sweep")
        time.sleep(1)
        left = traces(product, *words)
    return time.monotonic() - begun

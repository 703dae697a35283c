"""Search for text that had to be deleted: in a dump of the database, in every value of Redis, in the logs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from django.db import connection
from redis import Redis

from tests.faults.bench.postgres import bindir
from tests.support.database import bytes_of
from tests.support.processes import Product, here

REDIS = os.environ.get("REDIS_URL_FOR_TESTS", "")
SECONDS = 300.0


def dump(redis_url: str = REDIS) -> bytes:
    """Return everything that the database and Redis store, as someone who obtains their files would see it."""
    redis = redis_values(redis_url) if redis_url else b""
    if connection.vendor == "sqlite":
        found = Path(str(connection.settings_dict["NAME"]))
        return redis + b"".join(bytes_of(path) for path in found.parent.glob(f"{found.name}*"))
    done = subprocess.run([bindir() / "pg_dump", "--dbname", here()], capture_output=True, check=True)
    return redis + done.stdout


def redis_values(url: str) -> bytes:
    """Return all values in Redis as stored. Its own dump would compress them."""
    with Redis.from_url(url) as server:
        read: dict[bytes, Callable[[bytes], object]] = {
            b"string": server.get,
            b"list": lambda key: server.lrange(key, 0, -1),
            b"hash": server.hgetall,
            b"set": server.smembers,
            b"zset": lambda key: server.zrange(key, 0, -1),
        }
        return b"".join(key + repr(read[server.type(key)](key)).encode() for key in server.scan_iter())


def traces(product: Product, *words: str) -> list[str]:
    """Return the places where any of the words still is, in any encoding."""
    places = {
        "the dump": dump(product.env.get("REDIS_URL", REDIS)).lower(),
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

"""The fake's `/embeddings`: texts of the same meaning get similar vectors; the endpoint can also misbehave.

A word represents its meaning: words of one group of `SAME` mean the same, every other word means only itself.
"""

import base64
import json
import math
import re
import struct
import threading
import zlib
from typing import Any

from tests.support.fakes.behaviours import Head, Steps, Wait
from tests.support.fakes.connection import Request

SAME = (
    ("locker", "cupboard", "cabinet"),
    ("code", "combination"),
    ("boat", "dinghy", "vessel"),
    ("physician", "doctor"),
)
MEANING = {word: group[0] for group in SAME for word in group}
HOW = ("normal", "slow", "status", "wrong_dimensions", "nan", "fewer", "html", "twice", "rejected", "huge")
SLOW_SECONDS = 5.0
DIMENSIONS = 4
"""Of a vector, where the request names no number."""


class Embeddings:
    """The endpoint, the texts it received, and how it behaves. May be used from any thread."""

    def __init__(self) -> None:
        self.how = "normal"
        self.slow_seconds = SLOW_SECONDS
        self._lock = threading.Lock()
        self._asked: list[list[str]] = []
        self.last_body: dict[str, Any] = {}

    @property
    def asked(self) -> list[list[str]]:
        """The texts of every request, oldest first."""
        with self._lock:
            return list(self._asked)

    def steps(self, request: Request) -> Steps:
        """Yield the steps by which a request is answered."""
        texts = [str(text) for text in request.body["input"]]
        with self._lock:
            self._asked.append(texts)
            self.last_body = request.body
        if self.how == "slow":
            yield Wait(self.slow_seconds)
        if self.how == "status":
            yield Head("application/json", 500)
            yield b'{"error": {"message": "no"}}'
        elif self.how == "rejected":
            yield Head("application/json", 400)
            yield b'{"error": {"message": "An input is empty.", "code": "invalid_value"}}'
        elif self.how == "huge":
            yield Head("application/json")
            yield b" " * 17_000_000
        elif self.how == "html":
            yield Head("text/html")
            yield b"<h1>Welcome</h1>"
        else:
            yield Head("application/json")
            yield json.dumps(self._answer(texts, request.body)).encode()

    def _answer(self, texts: list[str], asked: dict[str, Any]) -> dict[str, Any]:
        dimensions = int(asked.get("dimensions", DIMENSIONS))
        vectors = [vector(text, dimensions + (self.how == "wrong_dimensions")) for text in texts]
        if self.how == "nan":
            vectors[-1][0] = math.nan
        written: list[Any] = vectors
        if asked.get("encoding_format") == "base64":
            written = [base64.b64encode(struct.pack(f"<{len(one)}f", *one)).decode() for one in vectors]
        data = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(written)]
        if self.how == "fewer":
            data.pop()
        if self.how == "twice":
            data[-1]["index"] = 0
            data.append(data[-1])
        tokens = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data[::-1], "model": asked["model"], "usage": usage}


def vector(text: str, dimensions: int) -> list[float]:
    """Return the meaning of `text`: one dimension is raised per word (by its meaning), short words are left out."""
    values = [0.0] * dimensions
    for word in re.findall(r"[a-z]{4,}", text.lower()):
        values[zlib.crc32(MEANING.get(word, word).encode()) % dimensions] += 1.0
    values[0] += 0.01  # no vector is zero
    return values

"""Ports for servers that start in a while, or start again: nobody takes one between the look for it and its use."""

from __future__ import annotations

import secrets
import socket

BELOW_EPHEMERAL = range(20_000, 32_000)
"""Ports that no system gives away by itself, to a listener that asks for any or to the end of a client's connection."""


def free_port() -> int:
    """A port of 127.0.0.1 at which nobody listens. Never by `random`, which Hypothesis seeds alike in every process."""
    while True:
        port = secrets.choice(BELOW_EPHEMERAL)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port

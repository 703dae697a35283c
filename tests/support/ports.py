"""Ports for servers that start later, or restart: no other process takes one between the check and its use."""

import secrets
import socket

BELOW_EPHEMERAL = range(20_000, 32_000)
"""Ports that no system assigns by itself, neither to a listener on any port nor to a client's end of a connection."""


def free_port() -> int:
    """Return a port of 127.0.0.1 without a listener.

    Does not use `random`, which Hypothesis seeds alike in every process.
    """
    while True:
        port = secrets.choice(BELOW_EPHEMERAL)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port

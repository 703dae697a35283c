"""Costs that tests need not pay repeatedly. None of this changes what tests prove."""

import atexit
import gc
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import certifi
from whitenoise.middleware import WhiteNoiseMiddleware

PREFIX = "chatmemory-test-authority-"


def read_one_certificate() -> None:
    """Make every TLS context trust only one authority, in the processes that tests start, too.

    No test uses TLS, but each httpx client makes such a context, and reading all authorities takes 20 ms. Certificates
    configured in the environment are left alone; processes that do use TLS need `environment_for_tls`.
    """
    if {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys():
        return
    bundle = Path(certifi.where()).read_text(encoding="utf-8")
    first = re.search(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n", bundle, re.DOTALL)
    assert first
    with tempfile.NamedTemporaryFile("w", prefix=PREFIX, suffix=".pem", delete=False) as file:
        file.write(first[0])
    atexit.register(Path(file.name).unlink, missing_ok=True)
    os.environ["SSL_CERT_FILE"] = file.name


def share_tls_contexts() -> None:
    """Make one TLS context for all clients of this process: httpx makes one per client and per `httpx.get` (5 ms).

    Only contexts for a bundle of authorities are shared; who asks for another changes it afterwards.
    """
    make = ssl.create_default_context
    shared: dict[str, ssl.SSLContext] = {}

    def context(*args: Any, cafile: str | None = None, **others: Any) -> ssl.SSLContext:
        if cafile is None or args or others:
            return make(*args, cafile=cafile, **others)
        if cafile not in shared:
            shared[cafile] = make(cafile=cafile)
        return shared[cafile]

    ssl.create_default_context = context  # type: ignore[assignment]  # takes the same, less precisely typed


def environment_for_tls() -> dict[str, str]:
    """Return the environment for a process that connects to the outside, as pip does, with all authorities."""
    made = os.environ.get("SSL_CERT_FILE", "").startswith(f"{tempfile.gettempdir()}/{PREFIX}")
    return {name: value for name, value in os.environ.items() if not (made and name == "SSL_CERT_FILE")}


def list_static_files_once() -> None:
    """Have WhiteNoise scan the folders once per process, not for each of Django's test clients (20 ms)."""
    look = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, dict[str, Any]] = {}

    def add(self: WhiteNoiseMiddleware) -> None:
        if self.static_prefix not in found:
            look(self)  # type: ignore[no-untyped-call]  # WhiteNoise is typed in part
            found[self.static_prefix] = dict(self.files)
        self.files.update(found[self.static_prefix])

    WhiteNoiseMiddleware.add_files_from_finders = add  # type: ignore[method-assign]


OBJECTS_TO_COLLECT = 10_000
"""The number of new objects that triggers a garbage collection, instead of 700: most of a test's objects need none."""


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Turn collection off while thousands of lasting objects are made, then freeze them (saves 0.1 s each time)."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(OBJECTS_TO_COLLECT, *gc.get_threshold()[1:])

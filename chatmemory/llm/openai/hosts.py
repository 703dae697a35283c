"""Which server is asked where nothing else is configured, and what it is sent by those who have no key. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

OPENAI_HOST = "api.openai.com"
OPENAI_URL = f"https://{OPENAI_HOST}/v1"
NO_KEY = "no-key"
"""Sent to servers that want none: the SDK refuses to send nothing."""


def is_openai_host(base_url: str) -> bool:
    """Whether that is OpenAI itself; "" is."""
    host = urlsplit(base_url or OPENAI_URL).hostname or ""
    return host == OPENAI_HOST or host.endswith(f".{OPENAI_HOST}")

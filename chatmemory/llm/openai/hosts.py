"""The default server, and the key for servers that need none. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

OPENAI_HOST = "api.openai.com"
OPENAI_URL = f"https://{OPENAI_HOST}/v1"
NO_KEY = "no-key"
"""Sent to servers that need no key, because the SDK refuses an empty one."""


def is_openai_host(base_url: str) -> bool:
    """Whether a base URL is OpenAI's; an empty one is."""
    host = urlsplit(base_url or OPENAI_URL).hostname or ""
    return host == OPENAI_HOST or host.endswith(f".{OPENAI_HOST}")

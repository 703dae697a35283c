"""The URL patterns of a server."""

from typing import Any

from django.urls import URLPattern, URLResolver


def routes(patterns: list[Any], before: str = "/") -> list[str]:
    found: list[str] = []
    for pattern in patterns:
        here = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            found += routes(pattern.url_patterns, here)
        elif isinstance(pattern, URLPattern):
            found.append(here)
    return found

"""The limit: a bare async Django view that reads the body, asks the upstream over aiohttp and passes each delta on.

No database, authentication or middleware: the cost of Django, uvicorn and aiohttp if nothing is stored. It uses the
product's format, so that one client reads both. Serve it with `uvicorn benchmarks.serving.bare_view:application`; the
upstream is the one of `OPENAI_BASE_URL`.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator

import aiohttp
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import path

if not settings.configured:  # else something only imports this module
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="bare", USE_TZ=True)

_session: aiohttp.ClientSession | None = None


async def message(request: HttpRequest) -> StreamingHttpResponse:
    """Answer with the reply's deltas."""
    said = json.loads(request.body)["message"]
    return StreamingHttpResponse(_deltas(said), content_type="text/event-stream")


async def _deltas(said: str) -> AsyncIterator[bytes]:
    global _session  # one per process, made on its event loop
    _session = _session or aiohttp.ClientSession()
    body = {"model": "gpt-5-mini", "input": [{"role": "user", "content": said}], "stream": True}
    async with _session.post(f"{os.environ['OPENAI_BASE_URL']}/responses", json=body) as answer:
        left = b""
        async for chunk in answer.content.iter_any():
            *lines, left = (left + chunk).split(b"\n")
            data = (json.loads(line[5:]) for line in lines if line.startswith(b"data:"))
            deltas = [event["delta"] for event in data if event["type"] == "response.output_text.delta"]
            if deltas:
                event = json.dumps({"delta": "".join(deltas)})
                yield f"event: content.delta\ndata: {event}\n\n".encode()


urlpatterns = [path("v1/message", message), path("v1/message/first", message)]
application = get_asgi_application()

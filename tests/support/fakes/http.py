"""A small server of HTTP in a thread, for services that take a few requests."""

from __future__ import annotations

import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Serving:
    """A server on a free port of 127.0.0.1, from entering to leaving. Subclasses answer each `Call`."""

    def get(self, call: Call) -> None:
        call.answer(405)

    def post(self, call: Call) -> None:
        call.answer(405)

    def delete(self, call: Call) -> None:
        call.answer(405)

    def secure(self, server: ThreadingHTTPServer) -> None:
        """Change the server before it starts, if it speaks HTTPS."""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Call, self))
        self.secure(self._server)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Call(BaseHTTPRequestHandler):
    """A request, and the way to answer it."""

    protocol_version = "HTTP/1.1"

    def __init__(self, serving: Serving, *args: Any) -> None:
        self._serving = serving
        super().__init__(*args)

    def do_GET(self) -> None:
        self._serving.get(self)

    def do_POST(self) -> None:
        self._serving.post(self)

    def do_DELETE(self) -> None:
        self._serving.delete(self)

    @property
    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def answer(self, status: int, body: Any = b"", **headers: str) -> None:
        """Answer with bytes, or with any other value as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        if data is not body:
            self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass

"""The largest requests that one user may send to a real server: its memory at the peak of each call above that before,
what it has kept after all of them, and another user's calls meanwhile.

Images of 20 MB are stored, sent to the model again by a tiny question, read by clients that never read, exported.
Bodies of 31 MB are made to be costly to read: most of them are refused. Linux only.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread

from django.contrib.auth.models import User
from knox.models import AuthToken

from benchmarks.figures import Figure, Group, percentile
from benchmarks.serving import processes
from benchmarks.serving.processes import Running
from chatmemory.llm.attachments import image_of
from conversations.interchange.rows import import_chat
from conversations.interchange.values import ImportedChat, ImportedMessage

MB = 1024 * 1024
IMAGE_BYTES = 20 * MB - 1000
BODY_BYTES = 31 * MB
IN_A_CHAT = 4
AT_ONCE = 6
DEAF = 40
"""Connections that ask for an image and never read it."""
DEAF_SECONDS = 5.0
CALM_SECONDS = 5.0
PROBE_PAUSE = 0.02
MEMORY_BAR, LATER_BAR, WORST_BAR = 64.0, 50.0, 500.0
"""P29 and P30: MB more, and milliseconds of others' calls at the 95th percentile more than before, and at worst."""
TIMEOUT = 180.0


def run(owner: User) -> Group:
    """Measure each call on its own: the memory that it adds, and others' calls beside those of a calm moment."""
    other, sender, exporter = (
        User.objects.get_or_create(username=f"benchmark-{name}")[0] for name in ("other", "sender", "exporter")
    )
    token, beside, sends, exports = (
        str(AuthToken.objects.create(user)[1]) for user in (owner, other, sender, exporter)
    )
    chats = [_chat_with_images(owner) for _ in range(AT_ONCE)]
    for _ in range(2):
        _chat_with_images(exporter)
    read = f"/v1/chats/{chats[0]}/attachments/{sha256(_image(0)).hexdigest()}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(processes.sink())
        server = stack.enter_context(processes.server(upstream, folder / "log"))
        calls, sending = Calls(server, token), Calls(server, sends)

        def all_at_once(call: Callable[[int], None], count: int = AT_ONCE) -> None:
            with ThreadPoolExecutor(count) as pool:
                list(pool.map(call, range(count)))

        cases: dict[str, Callable[[], None]] = {
            "one image stored and answered": lambda: sending.send_image(100),
            "six at once": lambda: all_at_once(lambda number: sending.send_image(200 + number)),
            "one image, store: false": lambda: sending.send_image(300, store=False),
            "a tiny question about four": lambda: calls.ask(chats[0]),
            "six at once, six chats": lambda: all_at_once(lambda number: calls.ask(chats[number])),
            f"{DEAF} connections that never read": lambda: calls.never_read(read),
            "an image, read": lambda: calls.get(read, token),
            "an account with eight, exported": lambda: calls.get("/v1/me/export", exports),
        }
        for name, body in _costly_bodies().items():
            cases[name] = partial(sending.send, body)
        lists = _costly_bodies()["lists"]
        cases["lists, six at once"] = lambda: all_at_once(lambda _: sending.send(lists))
        # Fill the caches of the database's connections and load what is loaded at the first use.
        for number in range(2):
            sending.send_image(number)
        for _ in range(4):
            all_at_once(lambda _: calls.get(read, token), 8)
            calls.ask(chats[-1])
        time.sleep(1)
        level = resident(server.pid, "VmRSS")
        calm = measured(server, level, beside, lambda: time.sleep(CALM_SECONDS))
        figures = [
            Figure("others' calls before, 95th percentile", calm.p95, "ms", note=f"at worst {calm.worst:.0f} ms")
        ]
        for name, call in cases.items():
            figures += figures_of(name, measured(server, level, beside, call), calm)
            time.sleep(1)
        kept = (resident(server.pid, "VmRSS") - level) / MB
        figures.append(Figure("kept after all of them", kept, "MB", bar=MEMORY_BAR))
    return Group("Requests of 20 MB and more", tuple(figures))


class Measured:
    """What a call did to the server: MB more, and how long others' calls took beside it, in milliseconds."""

    def __init__(self, more: float, late: list[float], seconds: float) -> None:
        self.more, self.seconds = more, seconds
        self.p95, self.worst = percentile(late, 0.95), max(late)


def figures_of(name: str, found: Measured, calm: Measured) -> Iterator[Figure]:
    """The figures of a call, compared with a calm moment."""
    later = max(0.0, found.p95 - calm.p95)
    yield Figure(name, found.more, "MB", bar=MEMORY_BAR, note=f"{found.seconds:.1f} s")
    yield Figure("  others' calls later, 95th percentile", later, "ms", bar=LATER_BAR)
    yield Figure("  others' calls at worst", found.worst, "ms", bar=WORST_BAR)


def measured(server: Running, level: int, token: str, call: Callable[[], None]) -> Measured:
    """Make a call, with another user's calls beside it; return what the server's memory peaks at above that before.

    Above `level` at least: a server that has given back free memory takes it again for the next call.
    """
    level = max(level, resident(server.pid, "VmRSS"))
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")  # resets the peak to the current value
    began = time.monotonic()
    with _beside(server.port, token) as late:
        call()
        time.sleep(0.2)
    seconds = time.monotonic() - began
    return Measured((resident(server.pid, "VmHWM") - level) / MB, late, seconds)


@contextmanager
def _beside(port: int, token: str) -> Iterator[list[float]]:
    """Call the server again and again as another user; yield how long each call took, in milliseconds."""
    late: list[float] = []
    stop = Event()
    request = head("GET", "/v1/chats?limit=1", token)

    def probe() -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as connection:
            while not stop.is_set():
                began = time.perf_counter()
                connection.sendall(request)
                answer = b""
                while not answer.endswith(b"0\r\n\r\n"):
                    answer += connection.recv(65536)
                late.append((time.perf_counter() - began) * 1000)
                assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
                stop.wait(PROBE_PAUSE)

    thread = Thread(target=probe)
    thread.start()
    try:
        yield late
    finally:
        stop.set()
        thread.join()


class Calls:
    """Calls of one user, over sockets, so that this process itself does little."""

    def __init__(self, server: Running, token: str) -> None:
        self.server, self.token = server, token

    def send_image(self, number: int, *, store: bool = True) -> None:
        """Send an image in a new conversation."""
        url = "data:image/png;base64," + base64.b64encode(_image(number)).decode()
        parts = [
            {"type": "text", "text": f"Image {number}?"},
            {"type": "image_url", "image_url": {"url": url}},
        ]
        body = {"model": "arco", "store": store, "messages": [{"role": "user", "content": parts}]}
        self._post("/v1/chat/completions", json.dumps(body).encode())

    def send(self, body: bytes) -> None:
        """Send a body, whatever the answer is, except an error of the server."""
        self._post("/v1/chat/completions", body, may_refuse=True)

    def ask(self, chat: str) -> None:
        """Ask a tiny question in a chat."""
        body = json.dumps({"chat_id": chat, "message": "And?", "stream": False}).encode()
        self._post("/v1/message", body)

    def get(self, path: str, token: str) -> None:
        """Read an answer whole, and keep none of it."""
        with self._connected() as connection:
            connection.sendall(head("GET", path, token, "Connection: close\r\n"))
            _expect_success(connection.recv(65536))
            while connection.recv(262144):
                pass

    def never_read(self, path: str) -> None:
        """Ask for the same path on many connections and read nothing."""
        with ExitStack() as stack:
            for _ in range(DEAF):
                connection = stack.enter_context(socket.socket())
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", self.server.port))
                connection.sendall(head("GET", path, self.token))
            time.sleep(DEAF_SECONDS)

    def _post(self, path: str, body: bytes, *, may_refuse: bool = False) -> None:
        length = f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        with self._connected() as connection:
            connection.sendall(head("POST", path, self.token, length) + body)
            _expect_success(connection.recv(65536), may_refuse=may_refuse)
            while connection.recv(65536):
                pass

    def _connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=TIMEOUT)


def _expect_success(answer: bytes, *, may_refuse: bool = False) -> None:
    allowed = (b"HTTP/1.1 200", b"HTTP/1.1 201", *([b"HTTP/1.1 400"] if may_refuse else []))
    if not answer.startswith(allowed):
        raise RuntimeError(answer[:2000].decode("utf-8", "replace"))


def head(method: str, path: str, token: str, more: str = "") -> bytes:
    """The head of a request; `more` are further headers."""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Accept: application/json\r\n{more}\r\n"
    ).encode()


def _image(number: int) -> bytes:
    """Return 20 MB that begin as a PNG of one pixel does; the same for the same number."""
    size = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    head = struct.pack(">I", 13) + b"IHDR" + size + struct.pack(">I", zlib.crc32(b"IHDR" + size))
    block = sha256(str(number).encode()).digest() * 32768
    return (b"\x89PNG\r\n\x1a\n" + head + block * 20)[:IMAGE_BYTES]


def _costly_bodies() -> dict[str, bytes]:
    """Return bodies that take a careless server long or much memory."""

    def filled(before: str, item: str, after: str) -> bytes:
        return (before + item * ((BODY_BYTES - 200) // len(item.encode())) + after).encode()

    def with_messages(messages: list[dict[str, str]]) -> bytes:
        return json.dumps({"model": "arco", "messages": messages}).encode()

    start, question = '{"model":"arco",', '"messages":[{"role":"user","content":"Hi"}]'
    image = base64.b64encode(b"\xff\xd8\xff" + b"\xff\xd0" * 10_000_000).decode()
    part = f'{{"type":"image_url","image_url":{{"url":"data:image/jpeg;base64,{image}"}}}}'
    return {
        "lists": filled(start + '"messages":[{"role":"x"},', "[],", "{}]}"),
        "objects": filled(start + question + ',"x":[', "{},", "{}]}"),
        "numbers": filled(start + question + ',"x":[', "0,", "0]}"),
        "keys of logit_bias": filled(start + question + ',"logit_bias":{', '"1":0,', '"1":0}}'),
        "keys of metadata": filled(start + question + ',"metadata":{', '"a":"b",', '"a":"b"}}'),
        "as many values as are taken": filled(start + question + ',"x":[', '"' + "a" * 117 + '",', '""]}'),
        "a text of commas": filled(start + '"messages":[{"role":"user","content":"', "a, ", '"}]}'),
        "a text of escapes": filled(start + '"messages":[{"role":"user","content":"', '\\\\\\"', '"}]}'),
        "a text with an emoji": filled(start + '"messages":[{"role":"user","content":"', "a, b ", '😀"}]}'),
        "a text with a line break": filled(start + '"messages":[{"role":"user","content":"', "a, b ", '\\n"}]}'),
        "lone surrogates": filled(start + '"messages":[{"role":"user","content":"', "\\ud800", '"}]}'),
        "8,000 messages of one side": with_messages([{"role": "user", "content": "x" * 3000}] * 8000),
        "50,000 of one letter": with_messages([{"role": "user", "content": "x"}] * 50_000),
        "a JPEG without a frame": f'{start}"messages":[{{"role":"user","content":[{part}]}}]}}'.encode(),
    }


def _chat_with_images(owner: User) -> str:
    messages = []
    for number in range(IN_A_CHAT):
        image = image_of(_image(number))
        assert image is not None
        messages.append(ImportedMessage("user", f"Look at {number}\n\n{image.mark}", attachments=(image,)))
        messages.append(ImportedMessage("assistant", "I see.", reply_to=2 * number + 1))
    return str(import_chat(owner, ImportedChat(title="images", messages=messages)).pk)


def resident(pid: int, field: str) -> int:
    """Memory of a process in bytes: `VmRSS` now, or `VmHWM` at its peak. Linux only."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))

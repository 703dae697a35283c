"""An upstream that reads requests of any length, keeps nothing of them and gives a short answer.

`python -m benchmarks.serving.sink --port N` speaks as much of the Responses API as a stream needs.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress

import uvloop

from tests.support.fakes.connection import chunk
from tests.support.fakes.speech import End, Speech

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
READ_BYTES = 1024 * 1024


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    speech = Speech("responses", "gpt-fake", "resp_1")
    said = b"".join([*speech.opening(), speech.delta("I see."), *speech.closing("I see.", End())])
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            left = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            while left:
                left -= len(await reader.readexactly(min(left, READ_BYTES)))
            writer.write(HEAD + chunk(said) + LAST)
            await writer.drain()
    writer.close()


async def serve(port: int) -> None:
    """Serve until the process ends."""
    server = await asyncio.start_server(answer, "127.0.0.1", port, limit=READ_BYTES)
    async with server:
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()

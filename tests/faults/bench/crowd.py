"""`python -m tests.faults.bench.crowd URL TOKEN COUNT`: COUNT readers of one reply, in a process of their own.

Prints `open` when each has read its first event, and at the end how many have read that it was cancelled.
"""

import asyncio
import sys
from urllib.parse import urlsplit

AT_A_TIME = 20
FINAL = b"event: message.cancelled"


async def main(url: str, token: str, count: int) -> None:
    place = asyncio.Semaphore(AT_A_TIME)
    readers = [asyncio.create_task(_opened(url, token, place)) for _ in range(count)]
    opened = [await reader for reader in readers]
    print("open", flush=True)
    ended = await asyncio.gather(*map(_read_to_the_end, opened))
    print(sum(ended), flush=True)


async def _opened(url: str, token: str, place: asyncio.Semaphore) -> asyncio.StreamReader:
    """Open a connection and read until `message.created`."""
    parts = urlsplit(url)
    request = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
    async with place:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        _writers.append(writer)
        writer.write(request.encode())
        answer = await reader.readuntil(b"event: message.created")
        assert answer.startswith(b"HTTP/1.1 200"), answer
    return reader


async def _read_to_the_end(reader: asyncio.StreamReader) -> bool:
    tail = b""
    while data := await reader.read(65_536):
        tail = (tail + data)[-65_536:]
        if FINAL in tail:
            return True
    return False


_writers: list[asyncio.StreamWriter] = []

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

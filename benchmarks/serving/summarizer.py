"""An upstream that answers each request for a summary after a second: `python -m benchmarks.serving.summarizer`."""

from __future__ import annotations

import argparse
import asyncio
import json
import re

SECONDS = 1.0
_VALUE = re.compile(rb"\b[A-Z][a-z]+(?: [A-Z][a-z]+)*|\b[\w-]*\d[\w-]*")
VALUES = 150
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def _answer(asked: bytes) -> bytes:
    """Answer with names and numbers of what was asked, so that no second answer is requested."""
    values = dict.fromkeys(value.decode() for value in _VALUE.findall(asked))
    told = f"The user and the assistant spoke of {', '.join(list(values)[-VALUES:])}."
    text = {"type": "output_text", "text": told, "annotations": []}
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    usage = {
        "input_tokens": 900,
        "output_tokens": 60,
        "total_tokens": 960,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    body = {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": "summarizer",
        "output": [message],
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            asked = await reader.readexactly(int(length[1]) if length else 0)
            await asyncio.sleep(SECONDS)
            writer.write(_answer(asked))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main(port: int) -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", port, backlog=1000)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(_main(parser.parse_args().port))

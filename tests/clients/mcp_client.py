"""Run as a program: the official client of the Model Context Protocol, in a revision with handshake and in the newest.

Prints what it was told as JSON. Arguments: the server's address, a token, `auto` (the newest) or `legacy`.
"""

import asyncio
import json
import sys
from typing import Any

import httpx2
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client


async def main(url: str, token: str, mode: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):

        async def call(name: str, **arguments: Any) -> Any:
            result = await client.call_tool(name, arguments)
            text = result.content[0].text
            assert result.is_error or json.loads(text) == result.structured_content
            return text if result.is_error else result.structured_content

        told: dict[str, Any] = {
            "version": client.protocol_version,
            "server": client.server_info.name,
            "tools": {
                tool.name: tool.annotations and tool.annotations.read_only_hint
                for tool in (await client.list_tools()).tools
            },
        }
        told["found"] = await call("search", query="boarding pass")
        asked = next(one for one in told["found"]["results"] if one["said_by"] == "user")
        told["read"] = await call("fetch", id=asked["id"])
        told["chats"] = await call("list_chats")
        told["pinned"] = await call("remember", text="Always answer in metric units.")
        told["memory"] = await call("get_memory")
        told["counted"] = await call("forget", kind="pin", id=told["pinned"]["id"])
        told["forgotten"] = await call("forget", kind="pin", id=told["pinned"]["id"], confirm=told["counted"]["count"])
        told["wrong"] = await call("search")
        try:
            told["unknown"] = await call("nothing")
        except MCPError as error:
            told["unknown"] = error.error.code
    return told


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))

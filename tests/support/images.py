"""Small images, generated here: every pixel has the same colour."""

import base64
import struct
import zlib


def png(width: int = 640, height: int = 480, colour: int = 0) -> bytes:
    """Return a PNG of this size, in one of 256 shades of grey."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes([colour]) * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def data_url(data: bytes, media_type: str = "image/png") -> str:
    """Return `data` as a client sends it."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"

"""A fixture of the tests of commands that read files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a value as JSON, or text and bytes unchanged, to a file of the given name."""

    def write(value: object, name: str = "chat.json") -> Path:
        text = value if isinstance(value, str | bytes) else json.dumps(value)
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write

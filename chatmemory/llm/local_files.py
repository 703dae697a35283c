"""The files of a local embeddings model: which are required, and what can be read without loading the model.

The layout is that of Sentence Transformers' models with ONNX files: the model as `model.onnx`, or else the first
`*.onnx` below `onnx/` by name; `tokenizer.json`; and optionally `sentence_bert_config.json` for the maximum length of
a text and `1_Pooling/config.json` for how a text's vector is pooled from its tokens' vectors. `local_embeddings`
loads it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "onnxruntime", "tokenizers")
INSTALL = "pip install '.[local-embeddings]'"
TOKENIZER = "tokenizer.json"
POOLING = "1_Pooling/config.json"
LENGTH = "sentence_bert_config.json"
MOST_TOKENS = 256
"""Maximum tokens of a text, unless the folder says less: 50 ms on one core. Vectors of longer texts say little."""
FORMAT_VERSION = "1"
"""Change this when the same files would yield other vectors."""


class LocalModelError(Exception):
    """The folder has no usable model, or packages are missing. The message is the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Files:
    """The paths of a model's parts, and its configuration."""

    model: Path
    tokenizer: Path
    most_tokens: int
    pooling: str
    """How token vectors are pooled: `mean` or `cls`."""

    @property
    def name(self) -> str:
        """The name of the model's vectors. It depends on the content of the files, not on the name of the folder."""
        digest = hashlib.sha256(f"{FORMAT_VERSION} {self.most_tokens} {self.pooling}".encode())
        for file in (self.model, self.tokenizer):
            with file.open("rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        return f"local:{digest.hexdigest()[:24]}"


def require_packages() -> None:
    """Raise `LocalModelError` if the extra is not installed. Imports nothing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise LocalModelError(f"needs {', '.join(missing)}: {INSTALL}")


def files_of(folder: Path) -> Files:
    """Find the parts of the model in `folder`, without reading weights. Raise `LocalModelError` if one is missing."""
    try:
        if not folder.is_dir():
            raise LocalModelError(f"names {folder}, which is no folder")
        below = sorted((folder / "onnx").glob("*.onnx"))
        model = next((file for file in (folder / "model.onnx", *below) if file.is_file()), None)
        if model is None:
            raise LocalModelError(f"names {folder}, where neither model.onnx nor onnx/model.onnx is")
        if not (folder / TOKENIZER).is_file():
            raise LocalModelError(f"names {folder}, where no {TOKENIZER} is")
        length = _json(folder / LENGTH).get("max_seq_length")
        said = length if type(length) is int and length > 0 else MOST_TOKENS
        pooling = "cls" if _json(folder / POOLING).get("pooling_mode_cls_token") is True else "mean"
    except OSError as error:
        raise LocalModelError(f"names {folder}, which cannot be read: {error.strerror}") from None
    return Files(model, folder / TOKENIZER, min(said, MOST_TOKENS), pooling)


def _json(file: Path) -> dict[str, Any]:
    """The JSON object in a file; {} if there is no such file. Raise `LocalModelError` for other content."""
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LocalModelError(f"names {file.parent}, where {file.name} is no JSON object")
    return found

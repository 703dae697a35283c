"""A folder with a model to embed with: what has to be in it, and what of that is read without loading it.

It is laid out as Sentence Transformers publish models with ONNX files: the model as `model.onnx`, or as the one below
`onnx/` that sorts first; `tokenizer.json`; and, where they are there, `sentence_bert_config.json` for the longest text
and `1_Pooling/config.json` for how a text's vector is made of those of its tokens. Loading is `local_embeddings`' part.
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
"""Of one text, where the folder does not say less: what takes 50 ms on a core. Their vectors of more say little."""
WAY = "1"
"""Changes when other vectors are made of the same files."""


class LocalModelError(Exception):
    """The folder holds no model that can be used, or the packages for it are missing: why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where the parts of a model lie, and what is said of it."""

    model: Path
    tokenizer: Path
    most_tokens: int
    pooling: str
    """`mean` or `cls`."""

    @property
    def name(self) -> str:
        """Of the vectors: another one for every other model, however its folder is called."""
        digest = hashlib.sha256(f"{WAY} {self.most_tokens} {self.pooling}".encode())
        for file in (self.model, self.tokenizer):
            with file.open("rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        return f"local:{digest.hexdigest()[:24]}"


def require_packages() -> None:
    """Raise `LocalModelError` where the extra is not installed. Imports nothing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise LocalModelError(f"needs {', '.join(missing)}: {INSTALL}")


def files_of(folder: Path) -> Files:
    """The parts of the model in `folder`. Reads no weights. Raises `LocalModelError` where some are missing."""
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
    """The object in a file; {} where there is no such file. Raises `LocalModelError` for any other."""
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LocalModelError(f"names {file.parent}, where {file.name} is no JSON object")
    return found

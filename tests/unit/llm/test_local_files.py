"""What a folder with an embedding model must contain, and why one is refused, as the end of a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from chatmemory.config.declared import MAX_MODEL_CHARS, is_name
from chatmemory.config.environment import read
from chatmemory.llm import local_files
from chatmemory.llm.local_files import LocalModelError, files_of

NAME = "MEMORY_EMBEDDINGS_FOLDER"
SERVER_EMBEDDINGS = ("MEMORY_EMBEDDINGS_MODEL", "MEMORY_EMBEDDINGS_DIMENSIONS")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create files at the places of a model's files."""
    (tmp_path / "model.onnx").write_bytes(b"weights")
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    return tmp_path


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the extra look installed."""
    monkeypatch.setattr(local_files, "PACKAGES", ("json",))


def test_a_folder_needs_two_files(folder: Path) -> None:
    files = files_of(folder)
    assert (files.model, files.tokenizer) == (folder / "model.onnx", folder / "tokenizer.json")
    assert (files.most_tokens, files.pooling) == (256, "mean")


def test_models_may_lie_below(folder: Path) -> None:
    (folder / "model.onnx").unlink()
    (folder / "onnx").mkdir()
    for name in ("model_quantized.onnx", "model_O4.onnx", "model.onnx", "model.onnx_data"):
        (folder / "onnx" / name).write_bytes(b"")
    assert files_of(folder).model == folder / "onnx" / "model.onnx"
    (folder / "onnx" / "model.onnx").unlink()
    assert files_of(folder).model == folder / "onnx" / "model_O4.onnx"


def test_what_the_folder_says_of_its_model_counts(folder: Path) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    for said, most in ((128, 128), (8192, 256), (0, 256), ("many", 256), (True, 256)):
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": said}))
        files = files_of(folder)
        assert (files.most_tokens, files.pooling) == (most, "cls"), said


def test_another_model_has_another_name_and_the_same_keeps_it_wherever_it_lies(folder: Path) -> None:
    names = {files_of(folder).name}
    moved = folder.rename(folder.with_name("moved"))
    names.add(files_of(moved).name)
    assert len(names) == 1
    (moved / "1_Pooling").mkdir()
    (moved / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    names.add(files_of(moved).name)
    (moved / "tokenizer.json").write_bytes(b"[]")
    names.add(files_of(moved).name)
    (moved / "model.onnx").write_bytes(b"others")
    names.add(files_of(moved).name)
    assert len(names) == 4
    assert all(is_name(name, MAX_MODEL_CHARS) for name in names)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("model.onnx", "where neither model.onnx nor onnx/model.onnx is"),
        ("tokenizer.json", "where no tokenizer.json is"),
    ],
)
def test_a_missing_file_is_named(folder: Path, broken: str, why: str) -> None:
    (folder / broken).unlink()
    with pytest.raises(LocalModelError, match=why):
        files_of(folder)


def test_a_bad_description_is_named(folder: Path) -> None:
    (folder / "sentence_bert_config.json").write_bytes(b"[1]")
    with pytest.raises(LocalModelError, match=r"sentence_bert_config\.json is no JSON object"):
        files_of(folder)


def test_the_setting_takes_a_folder(folder: Path, installed: None) -> None:
    assert str(folder) == read({NAME: str(folder)}).MEMORY_EMBEDDINGS_FOLDER


@pytest.mark.parametrize("beside", SERVER_EMBEDDINGS)
def test_a_servers_model_is_not_named_beside_it(folder: Path, installed: None, beside: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"{NAME} is set, so {beside} must not be"):
        read({NAME: str(folder), beside: "384"})


def test_a_missing_extra_is_named(folder: Path, installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "PACKAGES", ("json", "nowhere_to_be_had"))
    with pytest.raises(ImproperlyConfigured) as refused:
        read({NAME: str(folder)})
    assert str(refused.value) == f"{NAME} needs nowhere_to_be_had: pip install '.[local-embeddings]'."


@pytest.mark.parametrize("value", ["/nowhere", __file__, "a\0b"])
def test_what_is_no_folder_is_named(installed: None, value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"^{NAME} names "):
        read({NAME: value})

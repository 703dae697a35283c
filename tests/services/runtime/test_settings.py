"""A bad setting stops the start with a sentence that names it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from chatmemory.config import page
from chatmemory.config.kinds import (
    Boolean,
    Choice,
    Endpoint,
    Fraction,
    Integer,
    Kind,
    ModelName,
    Seconds,
    Secret,
    Url,
    text_or_file,
)
from chatmemory.config.names import check_names
from chatmemory.config.setting import Setting, settings_in
from chatmemory.config.variants import VariantTable
from chatmemory.llm.protocol import Price, Usage
from tests.support.exhaustive import first_row_of

ROOT = Path(__file__).resolve().parents[3]


def start(**variables: str) -> subprocess.CompletedProcess[str]:
    """Start a command with these environment variables, as an operator would."""
    return subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    first_row_of(
        [
            ("MEMORY_PROMPT_TOKEN_BUDGET", "many"),
            ("MEMORY_POLICY", "elephant"),
            ("MEMORY_INTERVAL_EVERY_TURNS", "0"),
            ("MEMORY_INTERVAL_TOKEN_CAP", "some"),
            ("DEFAULT_MODEL_VARIANT", "nobody"),
            ("MEMORY_SUMMARY_TOKEN_CAP", "3000"),  # leaves no room in the budget
            ("REPLY_LEASE_SECONDS", "1"),  # shorter than a few checkpoints
            ("DATABASE_URL", "mysql://elsewhere/db"),
            ("DATABASE_URL", "postgres://user:sk-pass/word@host/db"),  # the slash ends the host
            ("DATABASE_URL", "postgres://user:12/sk-word@host/db"),
            ("DATABASE_URL", "postgres://user:sk-pass@host:port/db"),
            ("DATABASE_URL", "postgres://user:sk-pass@host/"),
            ("DATABASE_URL", "sqlite:////dev/null/folder/db.sqlite3"),
            ("MODEL_VARIANTS", json.dumps({"n" * 65: {"model": "m"}})),  # no column has room for the name
            ("MEMORY_SUMMARIZER_MODEL", "m" * 129),
            ("MEMORY_SUMMARIZER_EFFORT", "enormous"),
            ("MEMORY_SUMMARIZER_OUTPUT_TOKENS", "-1"),
            ("MEMORY_EMBEDDINGS_FOLDER", "/nowhere"),
            ("OPENAI_BASE_URL", "http://"),
            ("OPENAI_BASE_URL", "http://user:sk-pass@host/v1"),
            ("OPENAI_BASE_URL", "http://host/v1?api-version=1"),
            ("OPENAI_BASE_URL", "http://host/v1#part"),
            ("OPENAI_API_KEY", "sk-ü"),
            ("MEMORY_PROMT_TOKEN_BUDGET", "100"),
            ("PROMPT_ID_SUMMARY_GLOBAL", "pmpt_1"),
        ]
    ),
)
def test_it_does_not_start(name: str, value: str) -> None:
    run = start(**{name: value, "MEMORY_ENABLED": "true"})
    assert run.returncode != 0
    assert run.stderr.startswith((f"chatmemory cannot start: {name} ", f"chatmemory cannot start: {name}["))
    assert len(run.stderr.splitlines()) == 1
    assert "sk-" not in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MEMORY_PROMT_TOKEN_BUDGET", "MEMORY_PROMPT_TOKEN_BUDGET"),
        ("MEMROY_POLICY", "MEMORY_POLICY"),
        ("MEMORY_HIERARCHICAL_FACT_TOKENS", "MEMORY_HIERARCHICAL_FACTS_TOKENS"),  # a policy's own number
        ("OPENAI_BASE_ULR", "OPENAI_BASE_URL"),
        ("DATABSE_URL", "DATABASE_URL"),
        ("PLAYGROUD", "PLAYGROUND"),
    ],
)
def test_a_misspelt_name_is_told_with_the_one_that_was_meant(name: str, meant: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"^{name} is not a setting\. Did you mean {meant}\?$"):
        check_names({name: "1"}, page.names())


def test_a_name_like_none_that_begins_like_ours_is_told() -> None:
    with pytest.raises(
        ImproperlyConfigured, match=r"^LIMIT_X is not a setting\. docs/settings\.md lists them\.$"
    ):
        check_names({"LIMIT_X": "1"}, page.names())


def test_a_removed_name_is_told_with_what_to_set_instead() -> None:
    with pytest.raises(ImproperlyConfigured, match="Set MEMORY_SUMMARIZER_INSTRUCTIONS to"):
        check_names({"PROMPT_ID_SUMMARY_GLOBAL": "pmpt_1"}, page.names())


def test_the_names_of_others_are_left_alone() -> None:
    kubernetes = (
        "SERVICE_HOST",
        "SERVICE_PORT",
        "SERVICE_PORT_HTTP",
        "PORT",
        "PORT_80_TCP",
        "PORT_80_TCP_ADDR",
    )
    names = [
        "PATH",
        "DJANGO_SETTINGS_MODULE",
        "DJANGO_SUPERUSER_PASSWORD",
        "LOG_DIR",
        "OPENAI_ORG_ID",
        "OPENAI_LOG",
    ]
    names += [
        "POSTGRES_PASSWORD",
        "PORT",
        "MEMORY_PRESSURE_WATCH",
        *(f"CHATMEMORY_{one}" for one in kubernetes),
    ]
    check_names(
        dict.fromkeys([*names, *page.names()], "1") | {"MEMORY_PROMT_TOKEN_BUDGET": " "}, page.names()
    )


def test_a_misspelt_name_in_the_file_stops_the_start_too(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MEMORY_POLCY=card\n")
    run = start(CHATMEMORY_HOME=str(tmp_path))
    told = "chatmemory cannot start: MEMORY_POLCY is not a setting. Did you mean MEMORY_POLICY?"
    assert (run.returncode, run.stderr.strip()) == (1, told)


def test_a_text_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "task.txt").write_text(" Keep the names of ships.\n", encoding="utf-8")
    for value in ("@task.txt", f"@{tmp_path}/task.txt", "Keep the names of ships."):
        assert text_or_file("SOME_SETTING", value, tmp_path) == "Keep the names of ships."


@pytest.mark.parametrize(("name", "bytes_"), [("none", None), ("empty", b" \n"), ("latin", b"\xe4")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, bytes_: bytes | None) -> None:
    if bytes_ is not None:
        (tmp_path / name).write_bytes(bytes_)
    with pytest.raises(
        ImproperlyConfigured, match=rf"^SOME_SETTING names the file {tmp_path}/{name}, which "
    ):
        text_or_file("SOME_SETTING", f"@{name}", tmp_path)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Integer(1, 5), "6"),
        (Integer(), "1.5"),
        (Integer(), "-1"),
        (Seconds(), "soon"),
        (Seconds(), "nan"),
        (Seconds(), "inf"),
        (Fraction(), "half"),
        (Fraction(0.9), "0.91"),
        (Boolean(), "maybe"),
        (Choice(("a", "b")), "c"),
        (Url(("http",)), "ftp://x"),
        (ModelName(), "m" * 129),
        (ModelName(), "a\nb"),
        (Endpoint(), "http://"),
        (Endpoint(), "http:api.example/v1"),
        (Endpoint(), "http:///v1"),
        (Endpoint(), "http://:8080/v1"),
        (Endpoint(), "http://a:b/v1"),
        (Endpoint(), "http://a:99999/v1"),
        (Endpoint(), "http://[::1/v1"),
        (Endpoint(), "http://münchen.example/v1"),
        (Endpoint(), "http://a b/v1"),
        (Secret(), "sk-ü"),
        (Secret(), "sk-a b"),
        (Secret(), "sk-a\tb"),
    ],
)
def test_a_bad_value_is_named(kind: Kind[object], value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^SOME_SETTING "):
        kind.parse("SOME_SETTING", value)


@pytest.mark.parametrize(
    "value",
    [
        "not json",
        "{}",
        "[]",
        '{"a": {}}',
        '{"a": {"model": "m", "colour": "red"}}',
        '{"a": {"model": "m", "reasoning_effort": "enormous"}}',
        '{"a": {"model": "m", "max_output_tokens": 0}}',
        '{"a": {"model": "m", "price": {"input": 1}}}',
        '{"a": {"model": "m", "price": {"input": -1, "cached": 0, "output": 0}}}',
        '{"a": {"model": "m", "price": {"input": 1e30, "cached": 0, "output": 0}}}',
        '{"": {"model": "m"}}',
        '{" ": {"model": "m"}}',
        '{"a\\u0000": {"model": "m"}}',
        json.dumps({"n" * 65: {"model": "m"}}),
        json.dumps({"a": {"model": "m" * 129}}),
        '{"a": {"model": " m"}}',
        '{"a": {"model": "m\\ud800"}}',
    ],
)
def test_bad_variants_are_named(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^SOME_SETTING"):
        VariantTable().parse("SOME_SETTING", value)


@pytest.mark.parametrize("kind", [Secret(), Endpoint()])
def test_a_secret_in_a_bad_value_is_not_shown(kind: Kind[str]) -> None:
    with pytest.raises(ImproperlyConfigured) as failure:
        kind.parse("SOME_SETTING", "http://root:sk-hünter2@")
    assert "nter2" not in str(failure.value)


@pytest.mark.parametrize("value", ["http://127.0.0.1:8080/v1", "https://[::1]:1/v1", "https://api.example"])
def test_a_good_endpoint_is_taken(value: str) -> None:
    assert Endpoint().parse("SOME_SETTING", value) == value


def test_a_password_in_a_bad_url_is_not_shown() -> None:
    with pytest.raises(ImproperlyConfigured) as failure:
        Url(("postgres",)).parse("SOME_SETTING", "mysql://root:hunter2@elsewhere")
    assert "hunter2" not in str(failure.value)


class Declared:
    """Settings for this test only."""

    SOME_NUMBER = Setting(7, Integer(), "A number.")
    SOME_SWITCH = Setting(True, Boolean(), "A switch.")
    SOME_MODEL = Setting("m", ModelName(), "A model.")


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_value_means_the_default(monkeypatch: pytest.MonkeyPatch, empty: str) -> None:
    for setting in settings_in(Declared):
        monkeypatch.setenv(setting.name, empty)
    assert [setting.read() for setting in settings_in(Declared)] == [7, True, "m"]


def test_blanks_around_a_value_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_NUMBER", " 8 ")
    monkeypatch.setenv("SOME_SWITCH", " OFF ")
    assert (Declared.SOME_NUMBER.read(), Declared.SOME_SWITCH.read()) == (8, False)


def test_variants_are_read_with_their_price() -> None:
    variants = VariantTable().parse(
        "SOME_SETTING",
        '{"fast": {"model": "m", "price": {"input": 1, "cached": 0.1, "output": 8}}, "known": {"model": "gpt-5-mini"}}',
    )
    assert variants["fast"].price == Price(Decimal(1), Decimal("0.1"), Decimal(8))
    assert variants["known"].price is not None
    # 1,000 input tokens, 400 of them cached, and 100 output tokens.
    assert variants["fast"].price.cost(Usage(1000, 400, 100)) == Decimal("0.00144")

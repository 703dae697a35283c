"""A bad setting stops the start with a sentence that names it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from chatmemory import env
from chatmemory.llm.protocol import Price, Usage

ROOT = Path(__file__).resolve().parent.parent


def start(**variables: str) -> subprocess.CompletedProcess[str]:
    """Start a command with these settings, as an operator would."""
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
    [
        ("MEMORY_PROMPT_TOKEN_BUDGET", "many"),
        ("MEMORY_POLICY", "elephant"),
        ("MEMORY_INTERVAL_EVERY_TURNS", "0"),
        ("MEMORY_INTERVAL_TOKEN_CAP", "some"),
        ("DEFAULT_MODEL_VARIANT", "nobody"),
        ("MEMORY_SUMMARY_TOKEN_CAP", "3000"),  # no room is left in the budget
        ("REPLY_LEASE_SECONDS", "1"),  # shorter than a few checkpoints
        ("DATABASE_URL", "mysql://elsewhere/db"),
        ("DATABASE_URL", "postgres://user:sk-pass/word@host/db"),  # the slash ends the host
        ("DATABASE_URL", "postgres://user:12/sk-word@host/db"),
        ("DATABASE_URL", "postgres://user:sk-pass@host:port/db"),
        ("DATABASE_URL", "postgres://user:sk-pass@host/"),
        ("DATABASE_URL", "sqlite:////dev/null/folder/db.sqlite3"),
        ("Q_BROKER", "redis"),  # without REDIS_URL
        ("MODEL_VARIANTS", json.dumps({"n" * 65: {"model": "m"}})),  # no column has room for the name
        ("MEMORY_SUMMARIZER_MODEL", "m" * 129),
        ("MEMORY_SUMMARIZER_EFFORT", "enormous"),
        ("MEMORY_SUMMARIZER_OUTPUT_TOKENS", "-1"),
        ("MEMORY_EMBEDDINGS_FOLDER", "/nowhere"),
        ("OPENAI_BASE_URL", "http://"),
        ("OPENAI_API_KEY", "sk-ü"),
    ],
)
def test_it_does_not_start(name: str, value: str) -> None:
    run = start(**{name: value, "REDIS_URL": "", "MEMORY_ENABLED": "true"})
    assert run.returncode != 0
    assert run.stderr.startswith((f"chatmemory cannot start: {name} ", f"chatmemory cannot start: {name}["))
    assert len(run.stderr.splitlines()) == 1
    assert "sk-" not in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda name: env.integer(name, 1, at_least=1, at_most=5), "6"),
        (lambda name: env.integer(name, 1), "1.5"),
        (lambda name: env.integer(name, 1), "-1"),
        (lambda name: env.seconds(name, 1), "soon"),
        (lambda name: env.seconds(name, 1), "nan"),
        (lambda name: env.seconds(name, 1), "inf"),
        (lambda name: env.boolean(name, True), "maybe"),
        (lambda name: env.choice(name, "a", ("a", "b")), "c"),
        (lambda name: env.url(name, ("http",)), "ftp://x"),
        (lambda name: env.variants(name, {}), "not json"),
        (lambda name: env.variants(name, {}), "{}"),
        (lambda name: env.variants(name, {}), '{"a": {}}'),
        (lambda name: env.variants(name, {}), '{"a": {"model": "m", "colour": "red"}}'),
        (lambda name: env.variants(name, {}), '{"a": {"model": "m", "reasoning_effort": "enormous"}}'),
        (lambda name: env.variants(name, {}), '{"a": {"model": "m", "max_output_tokens": 0}}'),
        (lambda name: env.variants(name, {}), '{"a": {"model": "m", "price": {"input": 1}}}'),
        (
            lambda name: env.variants(name, {}),
            '{"a": {"model": "m", "price": {"input": -1, "cached": 0, "output": 0}}}',
        ),
        (
            lambda name: env.variants(name, {}),
            '{"a": {"model": "m", "price": {"input": 1e30, "cached": 0, "output": 0}}}',
        ),
        (lambda name: env.variants(name, {}), '{"": {"model": "m"}}'),
        (lambda name: env.variants(name, {}), '{" ": {"model": "m"}}'),
        (lambda name: env.variants(name, {}), '{"a\\u0000": {"model": "m"}}'),
        (lambda name: env.variants(name, {}), json.dumps({"n" * 65: {"model": "m"}})),
        (lambda name: env.variants(name, {}), json.dumps({"a": {"model": "m" * 129}})),
        (lambda name: env.variants(name, {}), '{"a": {"model": " m"}}'),
        (lambda name: env.variants(name, {}), '{"a": {"model": "m\\ud800"}}'),
        (env.model, "m" * 129),
        (env.model, "a\nb"),
        (env.endpoint, "http://"),
        (env.endpoint, "http:api.example/v1"),
        (env.endpoint, "http:///v1"),
        (env.endpoint, "http://:8080/v1"),
        (env.endpoint, "http://a:b/v1"),
        (env.endpoint, "http://a:99999/v1"),
        (env.endpoint, "http://[::1/v1"),
        (env.endpoint, "http://münchen.example/v1"),
        (env.endpoint, "http://a b/v1"),
        (env.secret, "sk-ü"),
        (env.secret, "sk-a b"),
        (env.secret, "sk-a\tb"),
    ],
)
def test_a_bad_value_is_named(monkeypatch: Any, read: Callable[[str], Any], value: str) -> None:
    monkeypatch.setenv("SOME_SETTING", value)
    with pytest.raises(ImproperlyConfigured, match="SOME_SETTING"):
        read("SOME_SETTING")


@pytest.mark.parametrize("read", [env.secret, env.endpoint])
def test_a_secret_in_a_bad_value_is_not_shown(monkeypatch: Any, read: Callable[[str], str]) -> None:
    monkeypatch.setenv("SOME_SETTING", "http://root:sk-hünter2@")
    with pytest.raises(ImproperlyConfigured) as failure:
        read("SOME_SETTING")
    assert "nter2" not in str(failure.value)


@pytest.mark.parametrize(
    "value", ["http://127.0.0.1:8080/v1", "https://[::1]:1/v1", "https://api.example", ""]
)
def test_a_good_endpoint_is_taken(monkeypatch: Any, value: str) -> None:
    monkeypatch.setenv("SOME_SETTING", value)
    assert env.endpoint("SOME_SETTING") == value


def test_a_password_in_a_bad_url_is_not_shown(monkeypatch: Any) -> None:
    monkeypatch.setenv("SOME_SETTING", "mysql://root:hunter2@elsewhere")
    with pytest.raises(ImproperlyConfigured) as failure:
        env.url("SOME_SETTING", ("postgres",))
    assert "hunter2" not in str(failure.value)


def test_an_empty_value_means_the_default(monkeypatch: Any) -> None:
    monkeypatch.setenv("SOME_SETTING", " ")
    assert (
        env.integer("SOME_SETTING", 7),
        env.boolean("SOME_SETTING", True),
        env.text("SOME_SETTING", "x"),
    ) == (7, True, "x")


def test_variants_are_read_with_their_price(monkeypatch: Any) -> None:
    monkeypatch.setenv(
        "SOME_SETTING",
        '{"fast": {"model": "m", "price": {"input": 1, "cached": 0.1, "output": 8}}, "known": {"model": "gpt-5-mini"}}',
    )
    variants = env.variants("SOME_SETTING", {})
    assert variants["fast"].price == Price(Decimal(1), Decimal("0.1"), Decimal(8))
    assert variants["known"].price is not None
    # 1,000 input tokens, 400 of them cached, and 100 output tokens.
    assert variants["fast"].price.cost(Usage(1000, 400, 100)) == Decimal("0.00144")

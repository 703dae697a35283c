"""Settings are read from the environment; whatever is wrong stops the start, a sentence for each."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http.request import validate_host

from chatmemory.config import environment
from chatmemory.config.declared import SECRETS, Config, django_database
from chatmemory.config.environment import dotenv, make_folder, text_or_file
from chatmemory.llm.protocol import Price, Upstream, Usage
from memory.policies import POLICIES

ROOT = Path(__file__).resolve().parents[3]


PAGES = " docs/settings.md lists them, docs/upgrade.md says what became of earlier ones."


def read(variables: dict[str, str]) -> Config:
    return environment.read(variables, Path())[0]


def problems(**variables: str) -> list[str]:
    """Return what is told of these variables."""
    with pytest.raises(ImproperlyConfigured) as refused:
        read(variables)
    return str(refused.value).splitlines()


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


@pytest.mark.exhaustive
def test_all_setting_errors_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MEMORY_POLCY=card\n")
    run = start(CHATMEMORY_HOME=str(tmp_path), LOG_LEVEL="LOUD", OPENAI_API_KEY="sk-ü")
    assert run.returncode == 1
    assert run.stderr.splitlines() == [
        f"chatmemory cannot start: MEMORY_POLCY is not a setting. Did you mean MEMORY_POLICY?{PAGES}",
        "OPENAI_API_KEY must be printable ASCII without spaces; it is not shown here.",
        "LOG_LEVEL is 'LOUD', but must be one of DEBUG, INFO, WARNING, ERROR.",
    ]


def test_a_folder_that_cannot_be_made_is_named() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^DATABASE_URL names the folder /dev/null/folder, "):
        make_folder("DATABASE_URL", Path("/dev/null/folder"))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a volume of Docker's that belongs to root, who alone may write everywhere."""
    tmp_path.chmod(0o555)
    if os.getuid() == 0:
        monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)
    with pytest.raises(ImproperlyConfigured, match=rf"^CHATMEMORY_HOME names the folder {tmp_path}, .* cannot write"):
        make_folder("CHATMEMORY_HOME", tmp_path)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"\xef\xbb\xbfNAME=a\r\n", "a"),
        (b" NAME = a \n", "a"),
        (b"export  NAME='a' \n", "a"),
        (b"NAME=a # why\n", "a"),
        (b"NAME=a#b\n", "a#b"),
        (b"NAME= # none\n", ""),
        (b'NAME="a # b" # it\'s "c"\n', "a # b"),
        (b'NAME={"a": "it\'s"}\n', '{"a": "it\'s"}'),
        (b"\n# NAME=b\n  #c\nNAME=a\n", "a"),
    ],
)
def test_dotenv_is_read_as_other_programs_read_it(tmp_path: Path, line: bytes, value: str) -> None:
    (tmp_path / ".env").write_bytes(line)
    assert dotenv(tmp_path / ".env") == {"NAME": value}


@pytest.mark.parametrize(
    "content",
    [
        b"A=1\nOPENAI_API_KEY: sk-canary\n",
        b"A=1\n$env:KEY=sk-canary\n",
        b"A=1\nsk-canary\n",
        b"A=1\nK='sk-canary\n",
        b"K=sk-canary\xff",
    ],
)
def test_dotenv_that_cannot_be_read_stops_the_start_and_shows_no_key(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".env").write_bytes(content)
    run = start(CHATMEMORY_HOME=str(tmp_path))
    assert run.returncode == 1
    assert re.fullmatch(r"chatmemory cannot start: (Line 2 of|The file) \S+/\.env .*\n", run.stderr), run.stderr
    assert "canary" not in run.stderr


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("WORKER_THREADS", "1001", "is '1001', but must be a whole number, 1 to 1,000."),
        ("MEMORY_PROMPT_TOKEN_BUDGET", "many", "is 'many', but must be a whole number, 200 or more."),
        ("REPLY_IDLE_SECONDS", "nan", "is 'nan', but must be 0.05 to 86,400 s."),
        ("MEMORY_RECALL_SHARE", "0.91", "is '0.91', but must be 0 to 0.9."),
        ("MEMORY_ENABLED", "maybe", "is 'maybe', but must be true or false."),
        ("MEMORY_SUMMARIZER_EFFORT", "enormous", "is 'enormous', but must be one of none, minimal, low,"),
        ("MEMORY_SUMMARIZER_MODEL", "m" * 129, "must be a name of 1 to 128 printable characters, not 'm"),
        ("OPENAI_MODEL_ALIASES", "gpt-4.1", "must be pairs of names such as "),
        ("END_USER_HEADER", "X-User:", "must be names of letters, digits and hyphens, unlike 'x-user:'."),
        *(
            ("CORS_ALLOWED_ORIGINS", one, "must be origins such as https://app.example.com, without a path,")
            for one in ("*", "null", "app.example.com", "https://app.example.com/chat")
        ),
        (
            "OPENAI_MODEL_ALIASES",
            "a=nobody",
            "has nobody, but must name variants: arco, arco-pro, deep-dive.",
        ),
        ("DEFAULT_MODEL_VARIANT", "nobody", "is 'nobody', but must be one of arco, arco-pro, deep-dive."),
        ("MEMORY_SUMMARY_TOKEN_CAP", "3000", "is 3000, but must be smaller than MEMORY_PROMPT_TOKEN_BUDGET,"),
        ("OIDC_ISSUER", "http://id.example.com", "must be an https URL of at most 200 characters such as"),
        (
            "OIDC_ISSUER",
            "https://id.example.com",
            "and OIDC_CLIENT_ID need each other: set both, or neither.",
        ),
        ("MEMORY_POLICY_OPTIONS", "{", "is not valid JSON ("),
    ],
)
def test_bad_value_is_reported_with_allowed_values(name: str, value: str, told: str) -> None:
    (sentence,) = problems(**{name: value})
    assert sentence.startswith(f"{name} {told}")


@pytest.mark.exhaustive
def test_unknown_policies_and_options_are_reported_with_known_ones() -> None:
    options = '{"elephant": {}, "interval": {"x": 1, "every_turns": 0}}'
    run = start(MEMORY_POLICY="elefant", MEMORY_POLICY_OPTIONS=options)
    assert run.returncode == 1
    policies = f"must be one of {', '.join(sorted(POLICIES))}."
    assert run.stderr.splitlines() == [
        f"chatmemory cannot start: MEMORY_POLICY is 'elefant', but {policies}",
        f"MEMORY_POLICY_OPTIONS is 'elephant', but {policies}",
        "MEMORY_POLICY_OPTIONS has no option 'x' for interval, but: every_turns, window_turns, token_cap.",
        "MEMORY_POLICY_OPTIONS has 0 as every_turns of interval, which must be a whole number from 1 to 100.",
    ]


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("DATABASE_URL", "sk-pass"),
        ("DATABASE_URL", "mysql://root:sk-pass@elsewhere/db"),
        ("DATABASE_URL", "postgres://user:sk-pass/word@host/db"),  # the slash ends the host
        ("DATABASE_URL", "postgres://user:12/sk-word@host/db"),
        ("DATABASE_URL", "postgres://user:sk-pass@host:port/db"),
        ("DATABASE_URL", "postgres://user:sk-pass@host/"),
        ("OPENAI_BASE_URL", "http:///v1"),
        ("OPENAI_BASE_URL", "http://a:99999/v1"),
        ("OPENAI_BASE_URL", "http://[::1/v1"),
        ("OPENAI_BASE_URL", "http://münchen.example/v1"),
        ("OPENAI_BASE_URL", "ftp://host/v1"),
        ("OPENAI_BASE_URL", "http://user:sk-pass@host/v1"),
        ("OPENAI_BASE_URL", "http://host/v1?api-version=1"),
        ("OPENAI_BASE_URL", "http://host/v1#part"),
    ],
)
def test_a_bad_url_is_not_shown(name: str, url: str) -> None:
    (sentence,) = problems(**{name: url})
    assert sentence.startswith(f"{name} must be ")
    assert "sk-" not in sentence


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1"),
        ("OPENAI_BASE_URL", "https://[::1]:1/v1"),
        ("OPENAI_BASE_URL", "https://api.example"),
        ("DATABASE_URL", "sqlite:////home/alice@example.org/chats.sqlite3"),  # an @ is no password's there
    ],
)
def test_a_good_url_is_taken(name: str, url: str) -> None:
    assert url == getattr(read({name: url}), name)


@pytest.mark.parametrize(
    "url", ["postgres://u:p%40%2F@%2Frun%2Fpostgresql:6432/chats", "postgres://u:p%40%2F@/chats?host=/run/postgresql"]
)
def test_database_behind_a_socket_is_taken(url: str) -> None:
    found = django_database(url)
    assert "/run/postgresql" in (found["HOST"], found.get("OPTIONS", {}).get("host"))
    assert (found["PASSWORD"], found["NAME"]) == ("p@/", "chats")


@pytest.mark.parametrize(
    "value",
    [
        *("not json", "{}", '{"a": {"model": "m", "colour": "red"}}'),
        '{"a": {"model": "m", "max_output_tokens": 0}}',
        '{"a": {"model": "m", "max_output_tokens": true}}',
        '{"a": {"model": "m", "price": {"input": 1e30, "cached": 0, "output": 0}}}',
        *('{"": {"model": "m"}}', '{"a\\u0000": {"model": "m"}}'),
        json.dumps({"n" * 65: {"model": "m"}}),  # no column has room for the name
        json.dumps({"a": {"model": "m" * 129}}),
    ],
)
def test_bad_variants_are_named(value: str) -> None:
    assert all(sentence.startswith("MODEL_VARIANTS") for sentence in problems(MODEL_VARIANTS=value))


def test_a_part_of_a_variant_is_named_by_its_path() -> None:
    variants = {"a": {"modl": "gpt-5", "price": {"input": -1, "cached": 0, "output": 0}}}
    assert problems(MODEL_VARIANTS=json.dumps(variants)) == [
        "MODEL_VARIANTS['a']['model'] is missing.",
        "MODEL_VARIANTS['a']['price']['input'] must be 0 or more.",
        "MODEL_VARIANTS['a']['modl'] is unknown. Did you mean model? Known are model, reasoning_effort, "
        "max_output_tokens, price, base_url, key_env, style, fallback, system, extra.",
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"fallback": "nobody"}, "['fallback'] is 'nobody', but must be another variant: b."),
        *(({"extra": bad}, "['extra'] must be true, false, or a list of names") for bad in ("top_k", [1], [])),
        ({"fallback": "a"}, "['fallback'] is 'a', but must be another variant: b."),
        (
            {"key_env": "GROQ_API_KEY"},
            "['key_env'] is 'GROQ_API_KEY': set that environment variable to the key",
        ),
        (
            {"key_env": "OPENAI_SPARE_KEY"},
            "['key_env'] is 'OPENAI_SPARE_KEY': set that environment variable to",
        ),
        ({"key_env": "sk-abc"}, "['key_env'] must be the name of an environment variable that holds the key"),
        ({"key_env": "abc123"}, "['key_env'] must be the name of an environment variable that holds the key"),
        ({"base_url": "host/v1"}, "['base_url'] must be a URL of printable ASCII such as "),
        ({"base_url": "http://u:abc123@host/v1"}, "['base_url'] must be a URL of printable ASCII such as "),
        ({"style": "completions"}, "['style'] must be 'responses' or 'chat'."),
    ],
)
def test_upstream_errors_are_reported_without_keys(fields: dict[str, str], told: str) -> None:
    variants = {"a": {"model": "m", **fields}, "b": {"model": "m"}}
    key = {"OPENAI_SPARE_KEY": "sk-ü"} if "OPENAI_SPARE_KEY" in fields.values() else {}
    (sentence,) = problems(MODEL_VARIANTS=json.dumps(variants), DEFAULT_MODEL_VARIANT="a", **key)
    assert sentence.startswith(f"MODEL_VARIANTS['a']{told}")
    assert not re.search("abc|sk-ü", sentence)


SERVER = Upstream("", "sk-server", "responses")


@pytest.mark.parametrize(
    ("fields", "upstream"),
    [
        ({}, None),
        ({"style": "chat"}, replace(SERVER, style="chat")),
        ({"key_env": "OPENAI_SPARE_KEY"}, replace(SERVER, api_key="sk-spare")),
        ({"base_url": "http://home/v1"}, Upstream("http://home/v1", "", "responses")),
        (
            {"base_url": "http://home/v1", "key_env": "OPENAI_SPARE_KEY", "style": "chat"},
            Upstream("http://home/v1", "sk-spare", "chat"),
        ),
    ],
)
def test_the_servers_key_goes_to_no_other_address(fields: dict[str, str], upstream: Upstream | None) -> None:
    variants = {"a": {"model": "m", "fallback": "b", **fields}, "b": {"model": "n", "fallback": "a"}}
    given = {"MODEL_VARIANTS": json.dumps(variants), "DEFAULT_MODEL_VARIANT": "a"}
    given |= {"OPENAI_API_KEY": "sk-server"}
    given |= {"OPENAI_SPARE_KEY": " sk-spare "} if "OPENAI_SPARE_KEY" in fields.values() else {}
    found = read(given).variants(given)
    assert (found["a"].upstream, found["a"].fallback) == (upstream, replace(found["b"], fallback=None))
    assert "sk-" not in repr(found)


def test_variants_are_read_with_their_price() -> None:
    fast = {"model": "m", "price": {"input": 1, "cached": 0.1, "output": 8}}
    config = read({"MODEL_VARIANTS": json.dumps({"arco": fast, "known": {"model": "gpt-5-mini"}})})
    variants = config.variants({})
    assert variants["arco"].price == Price(Decimal(1), Decimal("0.1"), Decimal(8))
    assert variants["known"].price is not None
    # 1,000 input tokens, 400 of them cached, and 100 output tokens.
    assert variants["arco"].price.cost(Usage(1000, 400, 100)) == Decimal("0.00144")


def test_blanks_do_not_count_and_an_empty_value_means_the_default() -> None:
    config = read({"LIMIT_STREAMS": " 8 ", "MEMORY_ENABLED": " OFF ", "LOG_LEVEL": " ", "MODEL_VARIANTS": ""})
    assert (config.LIMIT_STREAMS, config.MEMORY_ENABLED) == (8, False)
    assert (config.LOG_LEVEL, list(config.MODEL_VARIANTS)) == ("INFO", ["arco", "arco-pro", "deep-dive"])


def test_host_names_with_wildcard_and_blanks_are_as_django_takes_them() -> None:
    hosts = read({"DJANGO_ALLOWED_HOSTS": "*.example.com, chat.example.org,*"}).DJANGO_ALLOWED_HOSTS.split(",")
    assert hosts == [".example.com", "chat.example.org", "*"]
    assert validate_host("eu.example.com", hosts[:2])


def test_lists_are_read() -> None:
    config = read(
        {
            "OPENAI_MODEL_ALIASES": "gpt-4.1=arco, *=arco",
            "OPENAI_CONVERSATION_HEADERS": "X-A, x-b",
            "END_USER_HEADER": "X-OpenWebUI-User-Id",
            "CORS_ALLOWED_ORIGINS": "https://App.example.com,http://localhost:5173",
        }
    )
    assert config.CORS_ALLOWED_ORIGINS == ("https://app.example.com", "http://localhost:5173")
    assert config.END_USER_HEADER == ("x-chatmemory-user", "x-openwebui-user-id")
    assert config.OPENAI_MODEL_ALIASES == {"gpt-4.1": "arco", "*": "arco"}
    assert config.OPENAI_CONVERSATION_HEADERS == ("x-a", "x-b")


# Names


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("MEMORY_PROMT_TOKEN_BUDGET", " Did you mean MEMORY_PROMPT_TOKEN_BUDGET?"),
        ("DATABSE_URL", " Did you mean DATABASE_URL?"),
        ("LIMIT_X", ""),
        ("Q_BROKER", ""),
        ("Q_WORKERS", " Set WORKER_THREADS instead."),
        ("PROMPT_ID_SUMMARY_GLOBAL", " Set MEMORY_SUMMARIZER_INSTRUCTIONS instead."),
        ("DATABSE_URL_FILE", " Did you mean DATABASE_URL_FILE?"),
        ("LOG_LEVEL_FILE", " Did you mean LOG_LEVEL?"),  # it is no secret
    ],
)
def test_a_misspelt_or_removed_name_is_refused(name: str, hint: str) -> None:
    assert problems(**{name: "1"}) == [f"{name} is not a setting.{hint}{PAGES}"]


def test_the_names_of_others_are_left_alone() -> None:
    names = ["PATH", "PORT", "DJANGO_SETTINGS_MODULE", "LOG_DIR", "POSTGRES_PASSWORD", "OPENAI_ORG_ID"]
    names += ["MEMORY_PRESSURE_WATCH", "CHATMEMORY_SERVICE_HOST", "CHATMEMORY_PORT_80_TCP_ADDR"]
    assert read(dict.fromkeys(names, "1") | {"MEMORY_PROMT_TOKEN_BUDGET": " "}) == Config()


# Files


def test_a_text_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "task.txt").write_text(" Keep the names of ships.\n", encoding="utf-8")
    for value in ("@task.txt", f"@{tmp_path}/task.txt", "Keep the names of ships."):
        assert text_or_file("SOME_SETTING", value, tmp_path) == "Keep the names of ships."


@pytest.mark.parametrize(("name", "bytes_"), [("none", None), ("empty", b" \n"), ("latin", b"\xe4")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, bytes_: bytes | None) -> None:
    if bytes_ is not None:
        (tmp_path / name).write_bytes(bytes_)
    told = rf"^SOME_SETTING names the file {tmp_path}/{name}, which "
    with pytest.raises(ImproperlyConfigured, match=told):
        text_or_file("SOME_SETTING", f"@{name}", tmp_path)


def test_settings_with_secret_names_are_declared_secret() -> None:
    assert {name for name in Config.model_fields if re.search("(KEY|TOKEN|SECRET|PASSWORD)$", name)} <= SECRETS


def test_secrets_may_stand_in_files(tmp_path: Path) -> None:
    """As Kubernetes and Docker bring them; a path in `.env` may be relative to it."""
    for name, text in (("key", "sk-server\n"), ("spare", "sk-spare"), ("django", "x" * 50)):
        (tmp_path / name).write_text(text)
    variants = {"a": {"model": "m", "base_url": "http://home/v1", "key_env": "SPARE_KEY"}}
    given = {"OPENAI_API_KEY": " ", "OPENAI_API_KEY_FILE": str(tmp_path / "key"), "SPARE_KEY_FILE": "spare"}
    given |= {"MODEL_VARIANTS": json.dumps(variants), "DEFAULT_MODEL_VARIANT": "a"}
    config, texts = environment.read(given | {"DJANGO_SECRET_KEY_FILE": "django"}, tmp_path)
    assert (config.OPENAI_API_KEY, config.DJANGO_SECRET_KEY) == ("sk-server", "x" * 50)
    assert config.variants(texts)["a"].upstream == Upstream("http://home/v1", "sk-spare", "responses")


def test_secret_file_errors_are_reported_without_secret(tmp_path: Path) -> None:
    for name, bytes_ in (("large", b"sk-" * 400_000), ("odd", b"sk-\xe4"), ("two", b"sk-one sk-two")):
        (tmp_path / name).write_bytes(bytes_)
    assert problems(DATABASE_URL="sqlite:///x", DATABASE_URL_FILE="/x", DJANGO_SECRET_KEY_FILE=f"{tmp_path}/large") == [
        "DATABASE_URL and DATABASE_URL_FILE are both set. Remove one of them.",
        f"DJANGO_SECRET_KEY_FILE names the file {tmp_path}/large, which cannot be read, is empty, is larger than "
        "1 MiB or is not UTF-8.",
    ]
    (sentence,) = problems(OPENAI_API_KEY_FILE=f"{tmp_path}/odd")
    assert sentence.startswith(f"OPENAI_API_KEY_FILE names the file {tmp_path}/odd, which ")
    assert problems(OPENAI_API_KEY_FILE=f"{tmp_path}/two") == [
        "OPENAI_API_KEY must be printable ASCII without spaces; it is not shown here."
    ]

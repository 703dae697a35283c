"""Reading the settings from the environment. Whatever is wrong is said at once, a sentence for each setting.

Names that do not exist are wrong, too, misspelt ones and removed ones, so that no setting is ignored.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from django.core.exceptions import ImproperlyConfigured
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from chatmemory.config.declared import UNBOUNDED, Config
from memory.policies import PER_POLICY
from memory.policies.protocol import bounds_of

PREFIXES = ("CHATMEMORY_", "MEMORY_", "LIMIT_", "REPLY_", "OPENAI_")
"""Names that begin with these are ours. Other names are taken for misspelt only if they are nearly a setting's."""
OTHERS = {
    # The openai package.
    *("OPENAI_ADMIN_KEY", "OPENAI_API_TYPE", "OPENAI_API_VERSION", "OPENAI_CUSTOM_HEADERS", "OPENAI_LOG"),
    *("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_WEBHOOK_SECRET"),
    # systemd, and Cloud Foundry.
    *("MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE", "MEMORY_LIMIT"),
}
"""Names with our prefixes that others set and read."""
_KUBERNETES = re.compile(r"_(?:SERVICE_(?:HOST|PORT\w*)|PORT(?:_\d+_\w+)?)$")
"""What it sets in every container for a service of any name, such as `chatmemory`."""
_FIXED = "its default is now fixed. Remove it"
REMOVED = {
    "MEMORY_EMBEDDINGS_FOLDER": "a server with /embeddings, such as Ollama or llama.cpp, runs local models. "
    "Set MEMORY_EMBEDDINGS_MODEL",
    "PROMPT_ID_SUMMARY_GLOBAL": "hosted prompts end on 2026-11-30. Set MEMORY_SUMMARIZER_INSTRUCTIONS to the prompt's "
    "text, or to @ and the path of a file with it",
    "PROMPT_VERSION_SUMMARY_GLOBAL": "it named the version of a hosted prompt, and these end on 2026-11-30",
    "MEMORY_MIN_FOLD_TOKENS": "chats have the option min_fold_tokens. Remove it",
    "MEMORY_FOLD_SECONDS": "it follows SUMMARIZER_TOTAL_SECONDS. Remove it",
    "Q_WORKERS": "one worker runs many tasks. Set WORKER_THREADS",
    "Q_BROKER": "the queue is in the database. Remove it",
    "MEMORY_HIERARCHICAL_REREAD": "every message is read once. MEMORY_REBUILD_EVERY_FOLDS reads all of them again",
    "LIMIT_EXPORT_SECONDS": "RATE_LIMITS switches this limit. Remove it",
    "LIMIT_SIGN_INS": "RATE_LIMITS switches this limit. Remove it",
    **dict.fromkeys(
        (
            *("ATTACHMENT_MAX_BYTES", "REQUEST_HEAD_MAX_BYTES", "REQUEST_RECEIVE_SECONDS"),
            *("INSTRUCTIONS_MAX_CHARS", "METADATA_MAX_BYTES", "IMPORT_METADATA_MAX_BYTES"),
            *("LIMIT_OUTPUT_TOKENS_RESERVED", "REPLY_MAX_BYTES", "REPLY_CHECKPOINT_SECONDS"),
            *("REPLY_LEASE_SECONDS", "MEMORY_LINE_TOKENS", "MEMORY_FOLD_LEASE_SECONDS"),
            *("MEMORY_FOLD_ATTEMPTS", "MEMORY_FOLD_BACKOFF_SECONDS", "MEMORY_EMBEDDINGS_SECONDS"),
            *("MEMORY_MIN_RETAINED", "SWEEP_SECONDS"),
            *("WORKER_CANARY_SECONDS", "WORKER_PATIENCE_SECONDS"),
            *("MEMORY_CARD_AS_TOOL", "MEMORY_CARD_GOAL_TOKENS", "MEMORY_CARD_GOAL_FLOOR_TOKENS"),
            *("MEMORY_CARD_LESSON_CONTEXT_TOKENS", "MEMORY_CARD_MAX_DECISIONS", "MEMORY_CARD_MAX_OPEN_Q"),
            *("MEMORY_CARD_MAX_CONSTRAINTS", "MEMORY_CARD_MAX_TECHNIQUES", "MEMORY_CARD_TECHNIQUES_FLOOR"),
            *("MEMORY_HIERARCHICAL_PIECE_TOKENS", "MEMORY_PROGRESSIVE_CALLS"),
        ),
        _FIXED,
    ),
}
"""Settings of earlier versions, and what to do instead. Names of a policy's options are told in `_as_option`."""
LIKE, NEARLY = 0.75, 0.9
"""How alike a name must be to one that is suggested for it, with one of our prefixes and without."""


def read(environment: Mapping[str, str]) -> Config:
    """Read the settings; blanks around a value do not count, and an empty value means the default.

    Raise `ImproperlyConfigured` with a sentence for everything that is wrong.
    """
    given = {name: text.strip() for name, text in environment.items() if text.strip()}
    wrong = list(wrong_names(given, Config.model_fields))
    values = {name: given[name] for name in Config.model_fields if name in given}
    try:
        config = Config.model_validate(values)
    except ValidationError as exc:
        wrong += [_sentence(error) for error in exc.errors()]
    else:
        wrong += config.contradictions()
    if wrong:
        raise ImproperlyConfigured("\n".join(wrong))
    return config


def wrong_names(given: Mapping[str, str], declared: Collection[str]) -> Iterator[str]:
    """Sentences about the names that look like settings, but are none."""
    for name, value in given.items():
        if name in declared or name in OTHERS or _KUBERNETES.search(name):
            continue
        is_ours = name.startswith(PREFIXES)
        if reason := REMOVED.get(name) or _as_option(name, value):
            yield f"{name} is no longer a setting: {reason}."
        elif close := difflib.get_close_matches(name, declared, 1, LIKE if is_ours else NEARLY):
            yield f"{name} is not a setting. Did you mean {close[0]}?"
        elif is_ours:
            yield f"{name} is not a setting. docs/settings.md lists them."


def _as_option(name: str, value: str) -> str | None:
    """How a former setting of a policy is given today: as one of its options."""
    for policy, kind in PER_POLICY.items():
        option = name.removeprefix(f"MEMORY_{policy}_".upper()).lower()
        if option in bounds_of(kind) and name == f"MEMORY_{policy}_{option}".upper():
            given: Any = value.lower() if value.lower() in ("true", "false") else value
            with suppress(ValueError):
                given = json.loads(given)
            return f"set MEMORY_POLICY_OPTIONS to {json.dumps({policy: {option: given}})}"
    return None


def allowed(field: FieldInfo) -> str:
    """The values that a setting may have, for the page of settings."""
    extra = _extra(field)
    if "allowed" in extra:
        return str(extra["allowed"])
    if words := get_args(field.annotation):
        return ", ".join(f"`{word}`" for word in words)
    if field.annotation is bool:
        return "`true` or `false`"
    low = next(rule.ge for rule in field.metadata if hasattr(rule, "ge"))
    high = next(rule.le for rule in field.metadata if hasattr(rule, "le"))
    return f"{low:,} or more" if high == UNBOUNDED else f"{low:,} to {high:,}{_unit(field)}"


def text_or_file(name: str, value: str, home: Path) -> str:
    """The text of a setting, which may stand in a file: `@` and its path. Relative paths start at `home`."""
    if not value.startswith("@"):
        return value
    path = home / Path(value[1:].strip()).expanduser()
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as exc:
        raise ImproperlyConfigured(
            f"{name} names the file {path}, which cannot be read: {exc.strerror}."
        ) from None
    except UnicodeDecodeError:
        raise ImproperlyConfigured(f"{name} names the file {path}, which is not UTF-8.") from None
    if not text:
        raise ImproperlyConfigured(f"{name} names the file {path}, which is empty.")
    return text


def make_folder(name: str, folder: Path) -> None:
    """Create the folder that a setting names, if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ImproperlyConfigured(
            f"{name} names the folder {folder}, which cannot be made: {exc.strerror}."
        ) from None


def _sentence(error: ErrorDetails) -> str:
    """What is wrong with the value of a setting, or with a part of it.

    Validators of `chatmemory.config.declared` write their own, which never show a secret.
    """
    name, *path = (str(part) for part in error["loc"])
    where = name + "".join(f"[{part!r}]" for part in path if part != "[key]")
    if error["type"] == "value_error":
        return f"{where} {error['ctx']['error']}"
    if path or error["type"].startswith(("json", "dict", "too_short")):
        reason = error["msg"][:1].lower() + error["msg"][1:]
        return f"{where} is wrong: {reason.removesuffix('.')}."
    return f"{where} is {error['input']!r}, but must be {_expected(Config.model_fields[name])}."


def _expected(field: FieldInfo) -> str:
    """The values that a setting may have, as part of a sentence."""
    values = allowed(field).replace("`", "").removesuffix(" s")
    if field.annotation is int:
        return f"a whole number, {values}"
    if field.annotation is float:
        return f"a number of seconds, {values}" if _unit(field) else f"a share, {values}"
    return values if field.annotation is bool else f"one of {values}"


def _unit(field: FieldInfo) -> str:
    return f" {unit}" if (unit := _extra(field).get("unit")) else ""


def _extra(field: FieldInfo) -> dict[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}

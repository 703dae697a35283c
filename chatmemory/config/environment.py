"""Reading our settings from the environment and `.env`: types, bounds, misspelt and earlier names. All mistakes are
reported at once, a sentence for each setting.

Names that do not exist are wrong, too, misspelt ones and removed ones, so that no setting is ignored. A secret may
stand in a file: `NAME_FILE` is the path of the file that holds `NAME`.
"""

import os
import re
from collections.abc import Iterator, Mapping, Set
from io import StringIO
from pathlib import Path
from typing import get_args

from django.core.exceptions import ImproperlyConfigured
from dotenv.parser import parse_stream
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from chatmemory.config.declared import SECRETS, Config, PriceSettings, VariantSettings, allowed
from chatmemory.errors import did_you_mean

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
_KUBERNETES = re.compile(r"_(?:SERVICE_(?:HOST|PORT\w{0,40})|PORT(?:_\d{1,5}_\w{1,40})?)$")
"""Variables that Kubernetes sets in every container for each service, such as one named `chatmemory`."""
REPLACED = {
    "PROMPT_ID_SUMMARY_GLOBAL": "MEMORY_SUMMARIZER_INSTRUCTIONS",
    "PROMPT_VERSION_SUMMARY_GLOBAL": "MEMORY_SUMMARIZER_INSTRUCTIONS",
    "Q_WORKERS": "WORKER_THREADS",
}
"""Settings of earlier versions, and what takes the place of each."""
REMOVED = {
    *REPLACED,
    *("Q_BROKER", "REDIS_URL"),
    *("ATTACHMENT_MAX_BYTES", "IMPORT_METADATA_MAX_BYTES", "INSTRUCTIONS_MAX_CHARS", "METADATA_MAX_BYTES"),
    *("REQUEST_HEAD_MAX_BYTES", "REQUEST_RECEIVE_SECONDS", "SWEEP_SECONDS"),
    *("WORKER_CANARY_SECONDS", "WORKER_PATIENCE_SECONDS"),
}
"""Settings of earlier versions without our prefixes. docs/upgrade.md says what takes their place."""
LIKE, NEARLY = 0.75, 0.9
"""How alike a name must be to one that is suggested for it, with one of our prefixes and without."""
PLAIN = {
    "json_invalid": "is not valid JSON ({error}). Names and texts need double quotes",
    "dict_type": "must be a JSON object",
    "model_type": 'must be a JSON object such as {{"model": "gpt-5-mini"}}',
    "missing": "is missing",
    "too_short": "must have at least one member",
    "greater_than_equal": "must be {ge:,} or more",
}
"""Sentences about values written as JSON, by pydantic's type of the error."""
FILE = "_FILE"
"""Ends the name of a variable that holds the path of a secret."""
FILE_MAX_BYTES = 1024 * 1024


def dotenv(path: Path) -> dict[str, str]:
    """Return the values of a file `.env`, if there is one.

    Raise `ImproperlyConfigured` for what cannot be read. The sentence shows no text of the file: it may be a key.
    """
    try:
        found = list(parse_stream(StringIO(path.read_text("utf-8-sig"))))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise ImproperlyConfigured(f"The file {path} cannot be read, or is not UTF-8.") from None
    for one in found:
        is_named = re.fullmatch(r"[A-Za-z_]\w*", one.key or "_", re.ASCII)
        if one.error or not is_named or (one.key and one.value is None):
            raise ImproperlyConfigured(f"Line {one.original.line} of {path} is neither NAME=value nor a comment.")
    return {one.key: one.value or "" for one in found if one.key}


def read(environment: Mapping[str, str], home: Path) -> tuple[Config, dict[str, str]]:
    """Read the settings; blanks around a value do not count, and an empty value means the default.

    Return them, and the texts that they were read from, with the keys of variants. Paths of files start at `home`.
    Raise `ImproperlyConfigured` with a sentence for everything that is wrong.
    """
    given = {name: text.strip() for name, text in environment.items() if text.strip()}
    secrets = {*SECRETS, *re.findall(r'"key_env"\s*:\s*"(\w+)"', given.get("MODEL_VARIANTS", ""))}
    wrong = list(_wrong_names(given, {*Config.model_fields, *secrets}, {name + FILE for name in secrets}))
    for name in sorted(secrets & {name.removesuffix(FILE) for name in given if name.endswith(FILE)}):
        try:
            given[name] = _secret_of_file(name, given, home)
        except ImproperlyConfigured as exc:
            wrong.append(str(exc))
    values = {name: given[name] for name in Config.model_fields if name in given}
    try:
        config = Config.model_validate(values)
    except ValidationError as exc:
        wrong += [_sentence(error) for error in exc.errors()]
    else:
        wrong += config.contradictions(given)
    if wrong:
        raise ImproperlyConfigured("\n".join(wrong))
    return config, given


def _wrong_names(given: Mapping[str, str], declared: Set[str], files: Set[str]) -> Iterator[str]:
    """Sentences about the names that look like settings, or like those of their files, but are neither."""
    for name in given:
        if name in declared | files | OTHERS or _KUBERNETES.search(name):
            continue
        is_ours = name.startswith(PREFIXES) or name in REMOVED or name.removesuffix(FILE) in declared
        hint = did_you_mean(name, declared | files, LIKE if is_ours else NEARLY)
        if hint or is_ours:
            if name in REPLACED:
                hint = f" Set {REPLACED[name]} instead."
            yield (
                f"{name} is not a setting.{hint} docs/settings.md lists them, docs/upgrade.md says what became of "
                "earlier ones."
            )


def text_or_file(name: str, value: str, home: Path) -> str:
    """The text of a setting, which may stand in a file: `@` and its path. Relative paths start at `home`."""
    return _text_of_file(name, value[1:].strip(), home) if value.startswith("@") else value


def _secret_of_file(name: str, given: Mapping[str, str], home: Path) -> str:
    if name in given:
        raise ImproperlyConfigured(f"{name} and {name}{FILE} are both set. Remove one of them.")
    return _text_of_file(name + FILE, given[name + FILE], home)


def _text_of_file(name: str, path: str, home: Path) -> str:
    """The text of the file that a setting names. The error shows the path, and nothing of the text."""
    where = home / Path(path).expanduser()
    try:
        with where.open("rb") as file:
            content = file.read(FILE_MAX_BYTES + 1)
        text = content.decode().strip() if len(content) <= FILE_MAX_BYTES else ""
    except (OSError, ValueError):
        text = ""
    if not text:
        raise ImproperlyConfigured(
            f"{name} names the file {where}, which cannot be read, is empty, is larger than 1 MiB or is not UTF-8."
        )
    return text


def make_folder(name: str, folder: Path) -> None:
    """Create the folder that a setting names, if need be. Raise `ImproperlyConfigured` if it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ImproperlyConfigured(f"{name} names the folder {folder}, which cannot be made: {exc.strerror}.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ImproperlyConfigured(f"{name} names the folder {folder}, in which this process cannot write.")


def _sentence(error: ErrorDetails) -> str:
    """The mistake in the value of a setting, or in a part of it.

    Validators of `chatmemory.config.declared` write their own, which never show a secret.
    """
    name, *path = (str(part) for part in error["loc"])
    where = name + "".join(f"[{part!r}]" for part in path if part != "[key]")
    if error["type"] == "value_error":
        return f"{where} {error['ctx']['error']}"
    if error["type"] == "extra_forbidden":
        fields = PriceSettings.model_fields if "price" in path else VariantSettings.model_fields
        return f"{where} is unknown.{did_you_mean(path[-1], fields)} Known are {', '.join(fields)}."
    if path or error["type"].startswith(("json", "dict", "too_short")):
        plain = PLAIN.get(error["type"], "").format(**error.get("ctx", {}))
        return f"{where} {plain or error['msg'].replace('Input should', 'must')}."
    field = Config.model_fields[name]
    kind = "a whole number, " if field.annotation is int else "one of " if get_args(field.annotation) else ""
    return f"{where} is {error['input']!r}, but must be {kind}{allowed(field).replace('`', '')}."

"""The page docs/settings.md, rendered from the declarations. `python -m benchmarks.settings_page` writes it."""

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from chatmemory.config.declared import SECRETS, Area, Config, allowed
from memory.policies import POLICIES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

OPENING = """\
# Settings

chatmemory reads its settings from the environment, or from a file `.env`: beside `manage.py`, or in
`CHATMEMORY_HOME`. The environment wins. An empty value means the default. Bad values stop the start with a sentence
for each that names the setting and the values that it allows. So do misspelt names, with the name that was probably
meant, names of earlier versions, with what to do instead, and lines of `.env` that are neither `NAME=value` nor begin
with `#`. There, values may stand in quotes; without them, a `#` after a blank begins a comment.

A secret may stand in a file: `NAME_FILE` is then the path of the file that holds `NAME`. Secrets are {secrets}, and
the keys that `key_env` of a variant names.

Most installations set fewer than ten of these; the [README](../README.md#settings) lists them. All durations are in
seconds. Tokens are those of the encoding o200k_base.

`make docs` writes this page from the declarations in `chatmemory/config/declared.py` and in the policies.
"""
OPTIONS = """\
## Options of policies

`MEMORY_POLICY_OPTIONS` sets them for all chats of a policy; a chat can choose its own ([policies.md](policies.md)).
"""


def render() -> str:
    """Render the whole page."""
    tables = [_settings(area) for area in Config.__bases__ if issubclass(area, Area)]
    secrets = ", ".join(f"`{name}`" for name in sorted(SECRETS))
    return "\n".join([OPENING.replace("{secrets}", secrets), *tables, OPTIONS, *(_options(name) for name in POLICIES)])


def _settings(area: type[Area]) -> str:
    rows = [
        (name, extra.get("shown") or _shown(field.default), _allowed(name, field), field.description)
        for name, field in area.model_fields.items()
        if isinstance(extra := field.json_schema_extra, dict)
    ]
    return f"## {area.model_config['title']}\n\n{inspect.getdoc(area)}\n\n{_table('setting', rows)}"


def _allowed(name: str, field: FieldInfo) -> str:
    return ", ".join(f"`{policy}`" for policy in POLICIES) if name == "MEMORY_POLICY" else allowed(field)


def _options(policy: str) -> str:
    rows = [
        (one.name, _shown(one.default), one.metadata["bounds"].allowed, one.metadata["meaning"])
        for one in fields(POLICIES[policy].numbers)
    ]
    return f"### `{policy}`\n\n{POLICIES[policy].description}\n\n{_table('option', rows)}"


def _table(first: str, rows: list[tuple[Any, ...]]) -> str:
    head = f"| {first} | default | values | meaning |\n|---|---|---|---|\n"
    lines = (" | ".join([f"`{name}`", *others]).replace("<|", "<\\|").replace("|>", "\\|>") for name, *others in rows)
    return head + "".join(f"| {line} |\n" for line in lines)


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, tuple):
        return ", ".join(f"`{one}`" for one in default)
    return f"`{default}`" if default not in ("", None, {}) else "none"


if __name__ == "__main__":
    PAGE.write_text(render())

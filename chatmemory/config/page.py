"""The page docs/settings.md, rendered from the declarations. `python -m chatmemory.config.page` writes it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chatmemory.config.memory import (
    ChunkedSettings,
    MemorySettings,
    RecallSettings,
    SummarizerSettings,
)
from chatmemory.config.service import (
    DatabaseSettings,
    LimitSettings,
    ServerSettings,
    UpstreamSettings,
    WorkerSettings,
)
from chatmemory.config.setting import Setting, policy_settings, settings_in
from memory.policies import POLICIES
from memory.policies.chunked import Chunked

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"

OPENING = """\
# Settings

chatmemory reads its settings from the environment, or from a file `.env`: beside `manage.py`, or in
`CHATMEMORY_HOME`. The environment wins. An empty value means the default. A bad value stops the start with a sentence
that names the setting and the values that it allows. So does a misspelt name, with the name that was probably meant.

Most installations set fewer than ten of these; the [README](../README.md#settings) lists them. All durations are in
seconds. Tokens are those of the encoding o200k_base.

`make docs` writes this page from the declarations in `chatmemory/config/` and in the policies.
"""


CHUNKED: dict[str, Setting[Any]] = {
    "k_raw_turns": ChunkedSettings.MEMORY_K_RAW_TURNS,
    "summary_token_cap": ChunkedSettings.MEMORY_SUMMARY_TOKEN_CAP,
    "threshold": ChunkedSettings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD,
}
"""The settings of `chunked` that are numbers of memory, because other policies use some of them, by their options."""


@dataclass(frozen=True, slots=True)
class SettingsTable:
    """One table of the page."""

    title: str
    text: str
    settings: tuple[Setting[Any], ...]


def tables() -> Iterator[SettingsTable]:
    """The tables, in the order of the page."""
    yield _table("Server", ServerSettings)
    yield _table("Database and queue", DatabaseSettings)
    yield _table("Limits", LimitSettings)
    yield _table("Model and upstream", UpstreamSettings)
    yield _table("Memory", MemorySettings)
    yield from _policies()
    yield _table("Recall and embeddings", RecallSettings)
    yield _table("Summarizer", SummarizerSettings)
    yield _table("Worker", WorkerSettings)


def names() -> list[str]:
    """The names of all settings."""
    return [setting.name for table in tables() for setting in table.settings]


def render() -> str:
    """Render the whole page."""
    return "\n".join([OPENING, *map(_render_table, tables())])


def main() -> None:
    """Write the page."""
    PAGE.write_text(render())


def _table(title: str, area: type) -> SettingsTable:
    return SettingsTable(title, inspect.getdoc(area) or "", tuple(settings_in(area)))


def _policies() -> Iterator[SettingsTable]:
    """The tables of policies with settings of their own. A chat can override each of them by an option."""
    for name, policy in POLICIES.items():
        own = policy_settings(name, policy.numbers)
        shared = CHUNKED if name == Chunked.name else {}
        if options := shared | own:
            listed = ", ".join(f"`{option}`" for option in options)
            text = f"{policy.description} A chat can override these by its options {listed}."
            yield SettingsTable(f"Policy `{name}`", text, tuple(options.values()))


def _render_table(table: SettingsTable) -> str:
    rows = "".join(_render_row(setting) for setting in table.settings)
    head = "| setting | default | values | meaning |\n|---|---|---|---|\n"
    return f"## {table.title}\n\n{table.text}\n\n{head}{rows}"


def _render_row(setting: Setting[Any]) -> str:
    cells = (f"`{setting.name}`", _default(setting), setting.kind.allowed, setting.meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(setting: Setting[Any]) -> str:
    if setting.shown_default:
        return setting.shown_default
    if isinstance(setting.default, bool):
        return f"`{str(setting.default).lower()}`"
    return "none" if setting.default in ("", None) else f"`{setting.default}`"


if __name__ == "__main__":
    main()

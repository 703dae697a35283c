"""Names of settings that do not exist: misspelt ones and removed ones stop the start, so that no setting is ignored."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping

from django.core.exceptions import ImproperlyConfigured

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
REMOVED = {
    "PROMPT_ID_SUMMARY_GLOBAL": "hosted prompts end on 2026-11-30. Set "
    "MEMORY_SUMMARIZER_INSTRUCTIONS to the prompt's text, or to @ and the path of a file with it",
    "PROMPT_VERSION_SUMMARY_GLOBAL": "it named the version of a hosted prompt, and these end on 2026-11-30",
}
"""Settings of earlier versions, and what to do instead."""
LIKE, NEARLY = 0.75, 0.9
"""How alike a name must be to one that is suggested for it, with one of our prefixes and without."""


def check_names(environment: Mapping[str, str], declared: Collection[str]) -> None:
    """Raise `ImproperlyConfigured` for the first name that is set and looks like a setting, but is none."""
    for name, value in environment.items():
        if not value.strip() or name in declared or name in OTHERS or _KUBERNETES.search(name):
            continue
        if name in REMOVED:
            raise ImproperlyConfigured(f"{name} is no longer a setting: {REMOVED[name]}.")
        is_ours = name.startswith(PREFIXES)
        if close := difflib.get_close_matches(name, declared, 1, LIKE if is_ours else NEARLY):
            raise ImproperlyConfigured(f"{name} is not a setting. Did you mean {close[0]}?")
        if is_ours:
            raise ImproperlyConfigured(f"{name} is not a setting. docs/settings.md lists them.")

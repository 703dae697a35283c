"""Rules between two settings, each of which may be valid by itself but wrong in combination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatmemory.config.kinds import bad_value


def check_relations(settings: Mapping[str, Any]) -> None:
    """Raise `ImproperlyConfigured` for the first rule that is broken."""
    _require_multiple(settings, "REPLY_LEASE_SECONDS", 4, "REPLY_CHECKPOINT_SECONDS")
    variants = settings["MODEL_VARIANTS"]
    if (default := settings["DEFAULT_MODEL_VARIANT"]) not in variants:
        raise bad_value("DEFAULT_MODEL_VARIANT", default, f"one of {', '.join(variants)}")
    if unknown := set(settings["OPENAI_MODEL_ALIASES"].values()) - set(variants):
        told = ", ".join(sorted(unknown))
        raise bad_value("OPENAI_MODEL_ALIASES", told, f"names of variants: {', '.join(variants)}")
    limits = settings["MEMORY_LIMITS"]
    if limits.summary_cap >= limits.prompt_budget:
        raise bad_value(
            "MEMORY_SUMMARY_TOKEN_CAP",
            limits.summary_cap,
            "smaller than MEMORY_PROMPT_TOKEN_BUDGET, which it is part of",
        )


_TIMES = {4: "four"}


def _require_multiple(settings: Mapping[str, Any], name: str, times: int, of: str) -> None:
    if settings[name] < times * settings[of]:
        raise bad_value(name, settings[name], f"at least {_TIMES[times]} times {of}")

"""The menu of the admin, grouped by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import template

register = template.Library()

GROUPS: dict[str, tuple[str, ...]] = {
    "Conversations": ("Chat", "Message"),
    "Memory": ("ConversationBrief", "SummaryRevision"),
    "Operations": ("ActiveReply", "IdempotencyKey", "Allowance", "ContentView"),
    "Accounts": ("User", "Group"),
}
"""The class names of models, by group."""
HIDDEN = ("ContextRecord",)
"""Models that are reached only from their chat."""
OTHERS = "More"
"""The group of models that are in no other."""


@register.filter
def menu(apps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Arrange Django's list of apps and models in our groups."""
    models = {model["object_name"]: model for app in apps for model in app["models"]}
    named = {name for names in GROUPS.values() for name in (*names, *HIDDEN)}
    groups = {**GROUPS, OTHERS: tuple(sorted(models.keys() - named))}
    return [
        {"name": group, "models": [models[name] for name in names if name in models]}
        for group, names in groups.items()
        if any(name in models for name in names)
    ]

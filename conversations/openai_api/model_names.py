"""The models that a client may name: variants, the upstream's own names for them, and aliases.

Pure: settings are arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatmemory.llm.protocol import Variant
from conversations.openai_api.errors import ModelNotFound

ANY = "*"


def variant_named(name: str, variants: Mapping[str, Variant], aliases: Mapping[str, str]) -> Variant:
    """Return the variant that `name` means. Raises `ModelNotFound`."""
    if name in variants:
        return variants[name]
    if name in aliases:
        return variants[aliases[name]]
    for variant in variants.values():
        if variant.model == name:
            return variant
    if ANY in aliases:
        return variants[aliases[ANY]]
    raise ModelNotFound(name, model_names(variants, aliases))


def model_names(variants: Mapping[str, Variant], aliases: Mapping[str, str]) -> list[str]:
    """Return all names of models, each once: variants first, then upstream names and aliases."""
    names = [*variants, *(one.model for one in variants.values()), *(name for name in aliases if name != ANY)]
    return list(dict.fromkeys(names))


def model_objects(
    variants: Mapping[str, Variant], aliases: Mapping[str, str], created: int
) -> list[dict[str, Any]]:
    """Return all models as OpenAI lists them."""
    return [model_object(name, created) for name in model_names(variants, aliases)]


def model_object(name: str, created: int) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "chatmemory",
        "shutdown_date": None,
    }

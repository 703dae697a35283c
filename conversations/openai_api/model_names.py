"""Which names of models a client may use, what each means, and the model as OpenAI's clients read it."""

import time
from typing import Any

from django.conf import settings

from chatmemory.llm.openai.reading import MAX_MODEL_CHARS
from chatmemory.llm.protocol import Variant
from conversations.openai_api.errors import ModelNotFound

ANY = "*"
"""The alias of all names that no model has."""
STARTED = int(time.time())
"""Start of this process, reported as the creation time of models, whose real one is unknown."""


def named_models() -> dict[str, Variant]:
    """Return the variants by all names that a client may use, in the order in which they are listed.

    A variant's own name comes before an alias, and an alias before the upstream's name of a model.
    """
    variants = settings.MODEL_VARIANTS
    upstream = {one.model: one for one in reversed(variants.values())}  # of two, the first
    aliases = {name: variants[to] for name, to in settings.OPENAI_MODEL_ALIASES.items() if name != ANY}
    return variants | upstream | aliases | variants


def variant_named(name: str) -> Variant:
    """Return the variant that `name` means. Raises `ModelNotFound`."""
    models = named_models()
    if name in models:
        return models[name]
    any_other = settings.OPENAI_MODEL_ALIASES.get(ANY)
    if any_other and 0 < len(name) <= MAX_MODEL_CHARS and name.isprintable():
        return models[any_other]
    raise ModelNotFound(name, models)


def model_object(name: str, created: int = STARTED) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "chatmemory", "shutdown_date": None}

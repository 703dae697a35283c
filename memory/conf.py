"""The limits of memory and the summarizer as the settings have them."""

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from chatmemory.llm.known_models import price_of
from chatmemory.llm.protocol import Variant
from memory.limits import MemoryLimits
from memory.policies import POLICIES
from memory.policies.protocol import bounds_of


def limits() -> MemoryLimits:
    """The limits of a chat that has no options."""
    return MemoryLimits(
        k_raw_turns=settings.MEMORY_K_RAW_TURNS,
        summary_cap=settings.MEMORY_SUMMARY_TOKEN_CAP,
        prompt_budget=settings.MEMORY_PROMPT_TOKEN_BUDGET,
        budget_for=settings.MEMORY_BUDGET_FOR,
        threshold=settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD,
        line_tokens=settings.MEMORY_LINE_TOKENS,
        batch_tokens=settings.MEMORY_FOLD_BITE_TOKENS,
        min_fold_tokens=settings.MEMORY_MIN_FOLD_TOKENS,
        recall=settings.MEMORY_RECALL,
        recall_share=settings.MEMORY_RECALL_SHARE,
        window_share=settings.MEMORY_WINDOW_SHARE,
        sources_budget=settings.SOURCES_TOKEN_BUDGET,
        turns_as=settings.MEMORY_TURNS_AS,
        summarizer_task=settings.MEMORY_SUMMARIZER_INSTRUCTIONS,
        enabled=settings.MEMORY_ENABLED,
        numbers={
            (numbers := POLICIES[policy].numbers): numbers(**options)
            for policy, options in settings.MEMORY_POLICY_OPTIONS.items()
        },
    )


def summarizer() -> Variant:
    """The model that writes summaries, at its list price."""
    model = settings.MEMORY_SUMMARIZER_MODEL
    return Variant(
        "summarizer",
        model,
        settings.MEMORY_SUMMARIZER_EFFORT,
        settings.MEMORY_SUMMARIZER_OUTPUT_TOKENS or None,
        price_of(model),
        system=all(one.system for one in settings.MODEL_VARIANTS.values() if one.model == model),
    )


def require_policies() -> None:
    """Raise `ImproperlyConfigured` with a sentence for each setting that names what no policy has."""
    wrong, policies = [], f"but must be one of {', '.join(POLICIES)}."
    if settings.MEMORY_POLICY not in POLICIES:
        wrong.append(f"MEMORY_POLICY is {settings.MEMORY_POLICY!r}, {policies}")
    for policy, options in settings.MEMORY_POLICY_OPTIONS.items():
        if policy not in POLICIES:
            wrong.append(f"MEMORY_POLICY_OPTIONS is {policy!r}, {policies}")
            continue
        bounds = bounds_of(POLICIES[policy].numbers)
        for option, value in options.items():
            if option not in bounds:
                known = ", ".join(bounds) or "none"
                wrong.append(f"MEMORY_POLICY_OPTIONS has no option {option!r} for {policy}, but: {known}.")
            elif not bounds[option].allows(value):
                wrong.append(
                    f"MEMORY_POLICY_OPTIONS has {value!r} as {option} of {policy}, which must be "
                    f"{bounds[option].allowed}."
                )
    if wrong:
        raise ImproperlyConfigured("\n".join(wrong))

"""Settings that are fixed for everybody, and that a test may give a process in its environment all the same."""

VARIABLE = "FIXED_SETTINGS_UNDER_TEST"
"""The variable that carries them, as JSON, to `tests.support.settings`."""
FIXED = (
    *("LIMIT_OUTPUT_TOKENS_RESERVED", "LIMIT_SIGN_INS", "MEMORY_EMBEDDINGS_SECONDS"),
    *("MEMORY_FOLD_ATTEMPTS", "MEMORY_FOLD_BACKOFF_SECONDS", "MEMORY_FOLD_LEASE_SECONDS"),
    *("MEMORY_MIN_RETAINED", "REPLY_CHECKPOINT_SECONDS", "REPLY_LEASE_SECONDS", "REPLY_MAX_BYTES"),
    *("INSTRUCTIONS_MAX_CHARS", "SWEEP_SECONDS", "CHEAP_PASSWORDS"),
)

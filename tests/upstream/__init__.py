"""The model boundary: pure parts in milliseconds, the rest over real HTTP against the fake upstream."""

"""The boundary to the model's server: pure parts tested directly, the rest over real HTTP against the fake upstream."""

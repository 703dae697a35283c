"""The settings: what each is, and how they are read from the environment."""

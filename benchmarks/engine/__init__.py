"""Memory's own work without a server: turns, folds and prompts."""

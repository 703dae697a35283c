"""Users: their tokens, limits and quotas."""

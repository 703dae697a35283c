"""Users' API tokens, limits and quotas."""

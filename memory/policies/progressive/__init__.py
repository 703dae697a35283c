"""The policy `progressive`."""

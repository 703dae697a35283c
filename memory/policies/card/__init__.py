"""The policy `card`."""

"""The policy `hierarchical`."""

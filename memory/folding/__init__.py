"""Folding turns into the brief: when, by which request, checked how, and published."""

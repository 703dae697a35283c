"""Additions to Django's database layer: executors, compiled statements, fields, checks at startup."""

"""Analyse text into search terms. Pure."""

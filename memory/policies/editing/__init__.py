"""Editing the state of each policy by hand."""

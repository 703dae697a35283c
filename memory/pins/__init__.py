"""Pins: statements that hold in a chat until they are taken back."""

"""Processes, threads, logs and fault points."""

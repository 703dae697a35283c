"""Processes, threads, logs and fault points: what the server stands on besides the database."""

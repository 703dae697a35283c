"""The worker: its loop, which workers are alive, and the sweep."""

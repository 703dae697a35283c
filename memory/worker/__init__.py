"""Worker processes: the queue's brokers, supervision and the sweep."""

"""Worker processes: the queue's brokers, the watchdog and the sweep."""

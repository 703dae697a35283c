"""A reply from the question to its end: begun, generated, followed by readers, finished."""

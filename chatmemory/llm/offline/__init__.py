"""The built-in model: answers and summarizes by rule, without network or key."""

"""The plan of a prompt: what of memory it shows, chosen from counts within a budget. Pure."""

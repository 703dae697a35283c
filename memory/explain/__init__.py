"""Why a prompt is what it is, and where a fact is and was, for staff and clients."""

"""Why a prompt is what it is, for staff and clients."""

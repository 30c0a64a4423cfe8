"""Why a job waits, or runs as it does: derived from the snapshot on request."""

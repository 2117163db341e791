"""Read, replay, copy and discard dead letters."""

"""Rebuild the trees of messages from a topology's records: pure code without I/O."""

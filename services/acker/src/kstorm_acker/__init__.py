"""The acker service."""

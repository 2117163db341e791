"""The spout service."""

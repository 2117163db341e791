"""The bolt service."""

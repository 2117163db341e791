"""What can go wrong here that a person can mend: every message names the thing, its value and the remedy."""

from __future__ import annotations


class PipelineError(Exception):
    """The pipeline cannot go on; the message is one line and says what to do."""


class SettingsError(PipelineError):
    """A setting is missing or has a value that cannot work."""

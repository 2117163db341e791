"""Errors that a user can fix. Every message names the cause, its value and the remedy."""

from __future__ import annotations


class PipelineError(Exception):
    """The pipeline cannot continue. The message is one line and names the remedy."""


class SettingsError(PipelineError):
    """A setting is missing or has an unusable value."""

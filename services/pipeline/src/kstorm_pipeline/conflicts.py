"""Retries conflicting commits. If two commits change the same files, Delta accepts only the first."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeVar

from delta import exceptions

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_TRIES = 10
"""`maintain` alone does not cause this many conflicts in a row."""
CONFLICTS: Final = (
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentTransactionException,
    exceptions.ConcurrentWriteException,
    exceptions.DeltaConcurrentModificationException,
    exceptions.MetadataChangedException,
    exceptions.ProtocolChangedException,
)
"""Delta refused a commit because of a concurrent one. They have no common base class in Python."""


def commit_again(table: str, commit: Callable[[], _T]) -> _T:
    """Make a commit to a table. Retry it if `maintain` has compacted the table's files meanwhile.

    The commit must carry its batch.
    """
    for left in reversed(range(_TRIES)):
        try:
            return commit()
        except CONFLICTS:
            if not left:
                raise
            logger.info("another process has committed to %s: committing again", table)
    raise AssertionError("the last try returns or raises")

"""Interrupts a batch between two of its commits."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kstorm_pipeline import PipelineError, refine


class CrashError(Exception):
    """Represents the end of the process."""


def break_off_after(commit: str, patch: pytest.MonkeyPatch) -> None:
    """Make a batch end right after a commit: `write_quarantine`, `write_silver`, or a gold table's."""
    function = commit if commit.startswith("write_") else "merge_gold"
    write: Callable[..., None] = getattr(refine, function)

    def break_off(*arguments: Any) -> None:
        write(*arguments)
        if function == commit or arguments[1].name == commit:
            raise CrashError

    patch.setattr(refine, function, break_off)


def break_off_after_each(
    commits: Iterable[str], monkeypatch: pytest.MonkeyPatch, run: Callable[[], None]
) -> None:
    """Run once per commit. Each time the batch ends right after one of them."""
    for commit in commits:
        with monkeypatch.context() as patch:
            break_off_after(commit, patch)
            with pytest.raises(PipelineError, match="a query failed"):
                run()

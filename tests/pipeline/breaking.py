"""Breaking a batch off between two of its commits."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kstorm_pipeline import PipelineError, refine


class CrashError(Exception):
    """Stands for the end of the process."""


def break_off_after(commit: str, patch: pytest.MonkeyPatch) -> None:
    """Have a batch end as soon as it has made a commit: `write_quarantine`, `write_silver`, or a gold table's."""
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
    """Run as often as there are commits; each time the batch ends as soon as it has made one of them."""
    for commit in commits:
        with monkeypatch.context() as patch:
            break_off_after(commit, patch)
            with pytest.raises(PipelineError, match="a query failed"):
                run()

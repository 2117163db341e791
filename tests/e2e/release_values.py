"""The Helm values of the release: from its code, common to all trials, and from the trial."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.e2e.kube import run
from tests.e2e.trial import Trial

_ALL: Final = Path(__file__).with_name("values.yaml")
_PIPELINE: Final = Path(__file__).with_name("pipeline-values.yaml")


class ReleaseValues:
    """Files of values, written to `workdir`. `more` overrides all others."""

    def __init__(self, trial: Trial, workdir: Path, more: Mapping[str, Any]) -> None:
        self._of_code, self._of_trial, self._more = (
            workdir / name for name in ("code.yaml", "trial.json", "more.json")
        )
        self._of_code.write_text(
            run([sys.executable, "-m", "kstorm.cli", "values", trial.reference, "--files"]),
            encoding="utf-8",
        )
        pipeline = {"topic": trial.sink, "definition": trial.tables.definition}
        values = {"test": {"message": trial.probe}, "pipeline": pipeline}
        self._of_trial.write_text(json.dumps(values), encoding="utf-8")
        self._more.write_text(json.dumps(more), encoding="utf-8")

    def options(self, pipeline: bool) -> list[str]:
        """Return helm's options, with or without the pipeline."""
        files = [
            self._of_code,
            _ALL,
            self._of_trial,
            *([_PIPELINE] if pipeline else []),
            self._more,
        ]
        return [part for file in files for part in ("-f", str(file))]

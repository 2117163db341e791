"""Starts Spark ahead of its work: `python -m kstorm_pipeline.early_start FILE run …` is `kstorm-pipeline run …` once FILE exists.

Spark takes some seconds to start and does not need the topic for that. So the demo starts Spark while the topology still
works, and creates FILE when the topic is complete.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from kstorm_pipeline.__main__ import main, make_parser
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.session import start_spark
from kstorm_pipeline.settings import load

_LOOK_SECONDS = 0.05


def wait(file: Path, words: list[str]) -> int:
    """Start Spark, wait for the file, run the command in the session that has started; return its exit code."""
    try:
        start_spark(load(make_parser().parse_args(words), os.environ))
    except PipelineError as error:
        print(f"kstorm_pipeline: {error}", file=sys.stderr)
        return 1
    while not file.exists():
        time.sleep(_LOOK_SECONDS)
    return main(words)


if __name__ == "__main__":
    sys.exit(wait(Path(sys.argv[1]), sys.argv[2:]))

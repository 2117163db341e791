"""`python -m tests.pipeline.dying_executors MOMENT run …`: the pipeline's command, whose executors die
at one moment of a batch.

The executors are separate processes, under a master `local-cluster[…]`. The moments:

    amid-lookup     one dies during the look-up of the batch's replays
    after-lookup    all die right after the look-up, and lose the data of `localCheckpoint`
    after-silver    all die as soon as silver has the batch
    amid-gold       one dies while the first gold table is merged
"""

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import psutil
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from kstorm_pipeline import refine
from kstorm_pipeline.__main__ import main

SAID = "killed executors: "
_BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
logger = logging.getLogger(__name__)
_once = threading.Lock()


def kill_executors(count: int | None = None) -> None:
    """Kill some executors with SIGKILL, or all. Only the first call does."""
    if not _once.acquire(blocking=False):
        return
    found = [each for each in psutil.Process().children(recursive=True) if _is_executor(each)][
        :count
    ]
    for each in found:
        each.kill()
    psutil.wait_procs(found)
    logger.warning("%s%d", SAID, len(found))


def _is_executor(process: psutil.Process) -> bool:
    """Return True for an executor. Other children may exit at any time."""
    try:
        return _BACKEND in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def kill_in_job() -> Callable[[], None]:
    """Kill one executor as soon as a stage has begun. Call the returned function when it would be
    too late."""
    spark, over = SparkSession.active(), threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def work() -> None:
        while not over.is_set():
            if tracker.getActiveStageIds():  # a task may end before the tracker reports it
                kill_executors(1)
                return

    threading.Thread(target=work, daemon=True).start()
    return over.set


def amid(function: Callable[..., Any]) -> Callable[..., Any]:
    def changed(*arguments: Any, **named: Any) -> Any:
        too_late = kill_in_job()
        try:
            return function(*arguments, **named)
        finally:
            too_late()

    return changed


def after(function: Callable[..., Any]) -> Callable[..., Any]:
    def changed(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        kill_executors()
        return result

    return changed


_MOMENTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "amid-lookup": (DataFrame, "localCheckpoint", amid),
    "after-lookup": (DataFrame, "localCheckpoint", after),
    "after-silver": (refine, "write_silver", after),
    "amid-gold": (refine, "merge_gold", amid),
}
MOMENTS = list(_MOMENTS)


def run() -> int:
    """Run the pipeline, whose executors die at the moment given as the first argument."""
    owner, name, change = _MOMENTS[sys.argv[1]]
    setattr(owner, name, change(getattr(owner, name)))
    return main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(run())

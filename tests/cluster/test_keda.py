"""KEDA scales a bolt that is too slow up and down, by the lag in the source topic."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.conftest import TAG, Install
from tests.cluster.keda import running_keda
from tests.e2e.kube import until
from tests.e2e.release import Release
from tests.e2e.wordcount import WORDCOUNT

pytestmark = pytest.mark.timeout(3600)

NAMESPACE = "kstorm-keda"
MOST = 3
BUSY, QUIET = 1200.0, 20.0
"""Sentences per second: more than two pods of the slow bolt can process, and fewer than one pod
can."""
SLOW = {"requests": {"cpu": "30m", "memory": "128Mi"}, "limits": {"cpu": "30m"}}
VALUES: dict[str, Any] = {
    "keda": {"pollingInterval": 5},
    "components": {
        "split": {
            "resources": SLOW,
            "autoscaling": {
                "keda": {
                    "enabled": True,
                    "maxReplicas": MOST,
                    "topic": "sentences",
                    "consumerGroup": f"{WORDCOUNT.name}.sentences",
                    "lagThreshold": 2000,
                }
            },
        }
    },
}


def test_bolt_scales_by_the_lag_of_the_source(install: Install) -> None:
    """It has the maximum of pods under high load and one under low load.

    Every word is counted once.
    """
    with running_keda(f"kstorm-spout:{TAG}"), install(NAMESPACE, VALUES) as release:
        assert _pods(release) == 1
        release.feed(BUSY)
        up = _seconds_until(lambda: _pods(release) == MOST, 300, f"{MOST} pods of split")
        release.stop_feeding()
        release.feed(QUIET)
        down = _seconds_until(lambda: _pods(release) == 1, 1200, "a single pod of split again")
        release.stop_feeding()
        audit = release.audit()
        print(
            f"{MOST} pods ready {up:.0f} s after the load came, 1 pod {down:.0f} s after it went; {audit.due:,} words"
        )
        assert list(audit.faults("words")) == []


def _pods(release: Release) -> int:
    """Return the number of ready pods of split, provided that none is starting or ending."""
    status = release.kube.get(f"deployment/{WORDCOUNT.name}-split")["status"]
    ready: int = status.get("readyReplicas", 0)
    return ready if ready == status.get("replicas") else -1


def _seconds_until(condition: Callable[[], object], timeout: float, what: str) -> float:
    began = time.monotonic()
    until(condition, timeout, what)
    return time.monotonic() - began

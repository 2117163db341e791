"""What is done to the release while messages flow: what operators do, and what happens to them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from kstorm.errors import LocalError
from tests.e2e.release import ACKER, BOLTS, SPOUT, Release

_AWAY_SECS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Disturbance:
    name: str
    do: Callable[[], object]


def disturbances(release: Release, short: bool, next_tag: str) -> Iterator[Disturbance]:
    """In the order in which they are done; `short`: a bolt scaled, an acker deleted."""
    yield Disturbance("kubectl scale split, 1 to 3", lambda: _scale(release, "split", 3))
    if short:
        yield Disturbance("an acker's pod is deleted", lambda: _delete_pod(release, ACKER))
        return
    yield Disturbance("kubectl scale split, 3 to 1", lambda: _scale(release, "split", 1))
    yield Disturbance("kubectl scale the ackers, 1 to 2", lambda: _scale(release, ACKER, 2))
    yield Disturbance("kubectl scale count, 1 to 3", lambda: _scale(release, "count", 3))
    yield Disturbance("kubectl scale count, 3 to 1", lambda: _scale(release, "count", 1))
    yield Disturbance("an acker's pod is deleted", lambda: _delete_pod(release, ACKER))
    yield Disturbance("the spout's pod is deleted", lambda: _delete_pod(release, SPOUT))
    for bolt in BOLTS:
        yield Disturbance(f"the pod of {bolt} is deleted", lambda bolt=bolt: _delete_pod(release, bolt))  # type: ignore[misc]
    yield Disturbance("the pod of count is deleted by force", lambda: _delete_pod(release, "count", "--force"))
    yield Disturbance("helm upgrade to a new image", lambda: release.upgrade(next_tag))
    yield Disturbance("kstorm scale split and sink, 1 to 2", lambda: release.kstorm("scale", "split=2", "sink=2"))
    yield Disturbance("kstorm restart, all of it", lambda: release.kstorm("restart"))
    yield Disturbance("kstorm drain, 3 s, kstorm activate", lambda: _pause(release))
    yield Disturbance("helm upgrade that adds the pipeline", release.add_pipeline)
    yield Disturbance("the pipeline's driver is deleted", lambda: release.pipeline.delete("pipeline"))
    yield Disturbance("the pipeline's executor is deleted", lambda: release.pipeline.delete("pipeline-executor"))
    yield Disturbance(f"kafka is away for {_AWAY_SECS / 60:.0f} minutes", lambda: _lose_kafka(release))
    for server in ("kafka", "zookeeper"):
        yield Disturbance(f"{server} is restarted", lambda server=server: _restart(release, server))  # type: ignore[misc]


def _scale(release: Release, component: str, replicas: int) -> None:
    release.kube.kubectl("scale", release.workload(component), f"--replicas={replicas}")


def _delete_pod(release: Release, component: str, *how: str) -> None:
    release.kube.kubectl("delete", f"pod/{release.pods(component)[0]}", "--wait", *how)


def _pause(release: Release) -> None:
    release.kstorm("drain")
    stands_at = release.samples()[-1].sink
    time.sleep(3)
    if release.samples()[-1].sink != stands_at:
        raise LocalError(f"the sink has grown from {stands_at:,} records although the topology is drained")
    release.kstorm("activate")


def _lose_kafka(release: Release) -> None:
    """Raises `LocalError` if a container of the topology is started again for that."""
    starts = release.container_starts()
    release.kube.kubectl("scale", release.server("kafka"), "--replicas=0")
    time.sleep(_AWAY_SECS)
    release.kube.kubectl("scale", release.server("kafka"), "--replicas=1")
    release.kube.roll_out(release.server("kafka"))
    release.await_ready()
    if (now := release.container_starts()) != starts:
        raise LocalError(f"containers were started again while Kafka was away: {starts} before, {now} after it")


def _restart(release: Release, server: str) -> None:
    release.kube.kubectl("rollout", "restart", release.server(server))
    release.kube.roll_out(release.server(server))

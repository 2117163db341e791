"""The disturbances of the release while messages flow: operators' actions and outages."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from kstorm.errors import LocalError
from tests.e2e.kube import until
from tests.e2e.release import ACKER, Release

_AWAY_SECS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Disturbance:
    name: str
    do: Callable[[], object]
    wait: Callable[[], object] = lambda: None
    """Waits for the right moment to start."""


def disturbances(release: Release, short: bool, next_tag: str) -> Iterator[Disturbance]:
    """Yield the disturbances in order. `short`: only scale a bolt and delete an acker."""
    yield _scaled(release, release.trial.stateless, 1, 3)
    if short:
        yield _deleted(release, ACKER, "an acker's pod is deleted")
        return
    yield _scaled(release, release.trial.stateless, 3, 1)
    yield _scaled(release, release.trial.stateful, 1, 3)
    yield _scaled(release, release.trial.stateful, 3, 1)
    yield Disturbance("kubectl scale the ackers, 1 to 2", lambda: _scale(release, ACKER, 2))
    yield from _of_pods(release)
    yield from _of_rollouts(release, next_tag)
    yield from _of_operators(release)
    yield Disturbance("helm upgrade that adds the pipeline", release.add_pipeline)
    yield Disturbance(
        "the pipeline's driver is deleted", lambda: release.pipeline.delete("pipeline")
    )
    yield Disturbance(
        "the pipeline's executor is deleted", lambda: release.pipeline.delete("pipeline-executor")
    )
    yield Disturbance(
        f"kafka is away for {_AWAY_SECS / 60:.0f} minutes", lambda: _lose_kafka(release)
    )
    for server in ("kafka", "zookeeper"):
        yield Disturbance(f"{server} is restarted", partial(_restart, release, server))


def _of_pods(release: Release) -> Iterator[Disturbance]:
    yield _deleted(release, ACKER, "an acker's pod is deleted")
    yield _deleted(release, release.trial.spout, "the spout's pod is deleted")
    for bolt in release.trial.bolts:
        yield _deleted(release, bolt, f"the pod of {bolt} is deleted")
    by_force = f"the pod of {release.trial.stateful} is deleted by force"
    yield _deleted(release, release.trial.stateful, by_force, "--force")
    if holding := release.trial.holding:
        by_force = f"the pod of {holding} is deleted by force while it holds tuples"
        yield _deleted(release, holding, by_force, "--force", wait=partial(_await_held, release))


def _of_rollouts(release: Release, next_tag: str) -> Iterator[Disturbance]:
    if holding := release.trial.holding:
        name = f"kubectl rollout restart of {holding} while it holds tuples"
        yield Disturbance(
            name, lambda: _roll_out_again(release, holding), partial(_await_held, release)
        )
    yield Disturbance("helm upgrade to a new image", lambda: release.upgrade(next_tag))
    yield Disturbance("helm rollback", release.roll_back)
    yield Disturbance("kstorm restart, all of it", lambda: release.kstorm("restart"))


def _of_operators(release: Release) -> Iterator[Disturbance]:
    """Use `kstorm` on a machine that has only a kubeconfig."""
    bolt, sink = release.trial.stateless, release.trial.bolts[-1]
    name = f"kstorm scale {bolt} and {sink}, 1 to 2"
    yield Disturbance(name, lambda: release.kstorm("scale", f"{bolt}=2", f"{sink}=2"))
    yield Disturbance(
        "kstorm deactivate, 3 s, kstorm activate", lambda: _pause(release, "deactivate")
    )
    yield Disturbance("kstorm drain, 3 s, kstorm activate", lambda: _pause(release, "drain"))
    yield Disturbance("kstorm offsets show", lambda: _show_offsets(release))


def _scaled(release: Release, component: str, before: int, after: int) -> Disturbance:
    name = f"kubectl scale {component}, {before} to {after}"
    return Disturbance(name, lambda: _scale(release, component, after))


def _deleted(
    release: Release,
    component: str,
    name: str,
    *how: str,
    wait: Callable[[], object] = lambda: None,
) -> Disturbance:
    return Disturbance(name, lambda: _delete_pod(release, component, *how), wait)


def _scale(release: Release, component: str, replicas: int) -> None:
    release.kube.kubectl("scale", release.workload(component), f"--replicas={replicas}")


def _delete_pod(release: Release, component: str, *how: str) -> None:
    release.kube.kubectl("delete", f"pod/{release.pods(component)[0]}", "--wait", *how)


def _await_held(release: Release) -> None:
    """Raise `LocalError` if the bolt holds no tuple for a minute: then nothing would be tested."""
    holding = release.trial.holding
    until(lambda: release.held(holding), 60, f"a tuple that {holding} holds")


def _roll_out_again(release: Release, component: str) -> None:
    release.kube.kubectl("rollout", "restart", release.workload(component))


def _pause(release: Release, verb: str) -> None:
    """Raise `LocalError` if records arrive in the sink although the topology is drained."""
    release.kstorm(verb)
    stands_at = release.samples()[-1].sink
    time.sleep(3)
    if verb == "drain" and release.samples()[-1].sink != stands_at:
        raise LocalError(
            f"the sink has grown from {stands_at:,} records although the topology is drained"
        )
    release.kstorm("activate")


def _show_offsets(release: Release) -> None:
    """Raise `LocalError` if the output does not contain the source topic."""
    if release.trial.source not in (shown := release.offsets()):
        raise LocalError(
            f"kstorm offsets show says nothing of the topic {release.trial.source!r}:\n{shown[-1000:]}"
        )


def _lose_kafka(release: Release) -> None:
    """Raise `LocalError` if the outage restarts a container of the topology."""
    starts = release.container_starts()
    release.kube.kubectl("scale", release.server("kafka"), "--replicas=0")
    time.sleep(_AWAY_SECS)
    release.kube.kubectl("scale", release.server("kafka"), "--replicas=1")
    release.kube.roll_out(release.server("kafka"))
    release.await_ready()
    if (now := release.container_starts()) != starts:
        raise LocalError(
            f"containers were started again while Kafka was away: {starts} before, {now} after it"
        )


def _restart(release: Release, server: str) -> None:
    release.kube.kubectl("rollout", "restart", release.server(server))
    release.kube.roll_out(release.server(server))

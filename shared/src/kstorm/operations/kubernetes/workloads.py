"""A topology on Kubernetes: workloads with the chart's labels, their pods and autoscalers.

    kstorm.io/topology    the topology's name
    kstorm.io/component   the component's id; `acker` for the ackers
    kstorm.io/kind        spout, bolt or acker

A workload that lacks one of these labels does not belong to kstorm and is never touched.
"""

from typing import Any, Final

import msgspec

from kstorm.topology.topology import ACKER_COMPONENT

TOPOLOGY: Final = "kstorm.io/topology"
COMPONENT: Final = "kstorm.io/component"
KIND: Final = "kstorm.io/kind"
KINDS: Final = ("spout", "bolt", "acker")
RELEASE: Final = "app.kubernetes.io/instance"
CHART: Final = "helm.sh/chart"
PART: Final = "app.kubernetes.io/component"
PREPARES: Final = "prepare"
"""The part of the Job that checks an install or upgrade."""

_REVISION: Final = "deployment.kubernetes.io/revision"
"""Annotation of a Deployment. A StatefulSet's status has its revision."""

SELECTOR: Final = f"{TOPOLOGY},{COMPONENT},{KIND} in ({','.join(KINDS)})"
"""Label selector for kstorm's workloads."""


class Workload(msgspec.Struct, frozen=True):
    """A Deployment or StatefulSet that runs a component."""

    namespace: str
    name: str
    type: str
    """`deployment` or `statefulset`."""
    topology: str
    component: str
    kind: str
    release: str
    """Helm release. Empty if unknown."""
    chart: str
    """Name and version of the chart. Empty if unknown."""
    image: str
    replicas: int
    """Desired number of pods."""
    ready: int
    selector: str
    """Label selector for its pods."""
    revision: str = ""
    """Revision of its pods' template. Empty until its controller has set it."""

    def __str__(self) -> str:
        return f"{self.type}/{self.name}"

    @property
    def id(self) -> str:
        """Id of the component in the topology.

        The ID of the ackers begins with an underscore. A label must not begin with one, so their
        label differs.
        """
        return ACKER_COMPONENT if self.kind == "acker" else self.component


class Pod(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    node: str
    address: str
    """IP address. Empty until it has one."""
    phase: str
    ready: bool
    restarts: int
    container: str
    """Name of the first container, which is the service's."""
    trouble: str
    """Reason why the container does not run. Empty if it runs or the reason is unknown."""
    since: float | None = None
    """Unix time at which the pod became unready. None if it is ready or the time is unknown."""

    @property
    def silence(self) -> str:
        """Reason why the pod does not respond, as far as Kubernetes knows."""
        phase = (
            "does not answer" if self.phase == "Running" else f"is {self.phase or 'not there yet'}"
        )
        often = (
            f"; it was restarted {self.restarts:,} time{'' if self.restarts == 1 else 's'}"
            if self.restarts
            else ""
        )
        return f"{self.trouble or phase}{often}"


class Autoscaler(msgspec.Struct, frozen=True):
    """A HorizontalPodAutoscaler."""

    name: str
    type: str
    """`deployment` or `statefulset`."""
    target: str
    least: int
    most: int
    scaled_object: str
    """KEDA's ScaledObject that created it, or empty."""

    def __str__(self) -> str:
        if self.scaled_object:
            return f"KEDA's ScaledObject {self.scaled_object} ({self.least} to {self.most})"
        return f"the HorizontalPodAutoscaler {self.name} ({self.least} to {self.most})"


def workload_of(found: Any, type: str) -> Workload:
    """Convert the Kubernetes client's object, which must have kstorm's labels."""
    labels = found.metadata.labels
    return Workload(
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        type=type,
        topology=labels[TOPOLOGY],
        component=labels[COMPONENT],
        kind=labels[KIND],
        release=labels.get(RELEASE, ""),
        chart=labels.get(CHART, ""),
        image=found.spec.template.spec.containers[0].image or "",
        replicas=1 if found.spec.replicas is None else found.spec.replicas,
        ready=(found.status and found.status.ready_replicas) or 0,
        selector=",".join(
            f"{key}={value}" for key, value in (found.spec.selector.match_labels or {}).items()
        ),
        revision=(found.metadata.annotations or {}).get(_REVISION)
        or getattr(found.status, "update_revision", None)
        or "",
    )


def pod_of(found: Any) -> Pod:
    """Convert the Kubernetes client's object."""
    containers = found.status.container_statuses or []
    # The other containers wait with the reason PodInitializing until these have ended.
    first = [each for each in found.status.init_container_statuses or [] if not each.ready]
    return Pod(
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        node=found.spec.node_name or "",
        address=found.status.pod_ip or "",
        phase="Terminating" if found.metadata.deletion_timestamp else found.status.phase or "",
        ready=bool(containers) and all(container.ready for container in containers),
        restarts=sum(container.restart_count for container in containers),
        container=found.spec.containers[0].name,
        trouble=next(filter(None, map(_trouble, (*first, *containers))), ""),
        since=_not_ready_since(found.status.conditions or ()),
    )


def autoscaler_of(found: Any) -> Autoscaler:
    """Convert the Kubernetes client's object."""
    owners = found.metadata.owner_references or []
    return Autoscaler(
        name=found.metadata.name,
        type=found.spec.scale_target_ref.kind.lower(),
        target=found.spec.scale_target_ref.name,
        least=1 if found.spec.min_replicas is None else found.spec.min_replicas,
        most=found.spec.max_replicas,
        scaled_object=next((owner.name for owner in owners if owner.kind == "ScaledObject"), ""),
    )


def _not_ready_since(conditions: Any) -> float | None:
    changed = (
        each.last_transition_time
        for each in conditions
        if (each.type, each.status) == ("Ready", "False")
    )
    return next((moment.timestamp() for moment in changed if moment is not None), None)


def _trouble(container: Any) -> str:
    """Return `CrashLoopBackOff: …`, or the container's exit code, with its last words."""
    state = container.state
    if state is None:
        return ""
    if state.waiting is not None:
        last = container.last_state and container.last_state.terminated
        words = _last_line(last) or state.waiting.message
        return ": ".join(filter(None, (state.waiting.reason, words)))
    if state.terminated is not None:
        code = f"exited with code {state.terminated.exit_code}"
        return ": ".join(filter(None, (code, _last_line(state.terminated))))
    return ""


def _last_line(terminated: Any) -> str:
    """Return the last line of a termination message, which is the end of the log."""
    lines = ((terminated and terminated.message) or "").strip().splitlines()
    return lines[-1].strip() if lines else ""

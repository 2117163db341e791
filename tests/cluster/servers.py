"""A Kafka and a ZooKeeper that pods and this machine reach at the same addresses."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.e2e.kube import Kube, until

_PORTS: Final = {"kafka": 9092, "zookeeper": 2181}


@contextmanager
def running_servers(kube: Kube, tag: str) -> Iterator[dict[str, str]]:
    """Start both in a namespace, and remove it at the end. Yield their addresses by name."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace}}
    kube.apply(namespace)
    try:
        kube.apply(*(_service(name, port) for name, port in _PORTS.items()))
        addresses = {
            name: f"{kube.get(f'service/{name}')['spec']['clusterIP']}:{port}"
            for name, port in _PORTS.items()
        }
        kube.apply(*(_pod(name, address, tag) for name, address in addresses.items()))
        for name in _PORTS:
            until(lambda name=name: _is_ready(kube, name), 180, name)  # type: ignore[misc]
        yield addresses
    finally:
        kube.kubectl("delete", "namespace", kube.namespace, "--wait", timeout=300)


def _is_ready(kube: Kube, pod: str) -> bool:
    status = kube.get(f"pod/{pod}")["status"]
    return any(each["ready"] for each in status.get("containerStatuses", ()))


def _service(name: str, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        # Kafka connects to itself by this address while it starts.
        "spec": {
            "selector": {"app": name},
            "ports": [{"port": port}],
            "publishNotReadyAddresses": True,
        },
    }


def _pod(name: str, address: str, tag: str) -> dict[str, Any]:
    container = {
        "name": name,
        "image": f"kstorm-{name}:{tag}",
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "KSTORM_ADVERTISED_LISTENERS", "value": f"PLAINTEXT://{address}"}],
        "readinessProbe": {"tcpSocket": {"port": _PORTS[name]}, "periodSeconds": 2},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]},
    }

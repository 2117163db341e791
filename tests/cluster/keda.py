"""KEDA from its own kustomization, with programs that Go has built on this machine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import yaml

from tests.e2e.kube import Kube, run, until
from tests.go_program import go_program, go_source

MODULE: Final = "github.com/kedacore/keda/v2"
VERSION: Final = "v2.21.0"
NAMESPACE: Final = "keda"
_PROGRAMS: Final = {"keda-operator": "operator", "keda-metrics-apiserver": "adapter"}


@contextmanager
def running_keda(image: str) -> Iterator[None]:
    """Install the operator and the metrics server into pods of any image of the cluster, and remove
    them at the end."""
    said = run(["kubectl", "kustomize", str(go_source(MODULE, VERSION) / "config" / "minimal")])
    objects = [_adapted(each, image) for each in yaml.safe_load_all(said)]
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    try:
        run(["kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-"], manifest)
        kube = Kube(NAMESPACE)
        for name in _PROGRAMS:
            kube.roll_out(f"deployment/{name}")
        until(lambda: _answers(kube), 60, "KEDA's server of metrics")
        yield
    finally:
        run(["kubectl", "delete", "--ignore-not-found", "--wait", "-f", "-"], manifest, timeout=180)


def _adapted(each: dict[str, Any], image: str) -> dict[str, Any]:
    """Return the object.

    A Deployment gets the program from this machine's cache, because KEDA's image cannot be pulled.
    """
    if each["kind"] == "Deployment":
        program = go_program(f"{MODULE}/cmd/{_PROGRAMS[each['metadata']['name']]}", VERSION)
        spec = each["spec"]["template"]["spec"]
        spec["securityContext"]["runAsUser"] = 10001
        (container,) = spec["containers"]
        container |= {
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": [f"/program/{program.name}"],
        }
        mount = {"name": "program", "mountPath": "/program", "readOnly": True}
        container["volumeMounts"].append(mount)
        spec["volumes"].append({"name": "program", "hostPath": {"path": str(program.parent)}})
    return each


def _answers(kube: Kube) -> bool:
    service = kube.get("apiservice/v1beta1.external.metrics.k8s.io")
    return any(
        one["type"] == "Available" and one["status"] == "True"
        for one in service["status"]["conditions"]
    )

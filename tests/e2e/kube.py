"""kubectl and helm, called as a user would."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kstorm.errors import LocalError


class Kube:
    """One namespace of the cluster in KUBECONFIG."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        for tool in ("kubectl", "helm"):
            if shutil.which(tool) is None:
                raise LocalError(f"{tool} is not on the PATH: install it, or name its folder there")

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Run kubectl in the namespace and return its output. Raises `LocalError` if it fails."""
        return run(["kubectl", "-n", self.namespace, *arguments], stdin, timeout)

    def helm(self, *arguments: str, timeout: float = 600) -> str:
        """Run helm in the namespace and return its output. Raises `LocalError` if it fails."""
        return run(["helm", "-n", self.namespace, *arguments], None, timeout)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        self.kubectl(
            "apply",
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
        )

    def get(self, *arguments: str) -> Any:
        """Return objects as in `kubectl get -o json`."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def items(self, *arguments: str) -> list[Any]:
        return list(self.get(*arguments)["items"])

    def roll_out(self, workload: str, timeout: float = 240) -> None:
        """Wait until all pods of a workload (`deployment/NAME`) are up to date and ready."""
        self.kubectl(
            "rollout", "status", workload, f"--timeout={timeout:.0f}s", timeout=timeout + 10
        )

    def run_pod(
        self,
        name: str,
        image: str,
        command: list[str],
        files: Mapping[str, str],
        claim: str | None = None,
    ) -> None:
        """Start a pod that is never restarted, and replace an existing one with the same name.

        It gets `files` by path below /inside, its working directory. `claim` names a volume that it
        may read at /data.
        """
        self.kubectl("delete", f"pod/{name}", f"configmap/{name}", "--ignore-not-found", "--wait")
        security = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        # A ConfigMap's keys cannot contain slashes.
        keys = {path: path.replace("/", ".") for path in files}
        items = [{"key": key, "path": path} for path, key in keys.items()]
        volumes: list[Mapping[str, Any]] = [
            {"name": "inside", "configMap": {"name": name, "items": items}},
            {"name": "tmp", "emptyDir": {}},
        ]
        mounts: list[Mapping[str, Any]] = [
            {"name": "inside", "mountPath": "/inside"},
            {"name": "tmp", "mountPath": "/tmp"},
        ]
        if claim is not None:
            volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": claim}})
            mounts.append({"name": "data", "mountPath": "/data", "readOnly": True})
        container = {
            "name": name,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": command,
            "workingDir": "/inside",
            "securityContext": security,
            "volumeMounts": mounts,
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "securityContext": {
                    "runAsNonRoot": True,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
                "volumes": volumes,
            },
        }
        data = {keys[path]: text for path, text in files.items()}
        self.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}, pod
        )

    def await_end(self, pod: str, timeout: float) -> str:
        """Wait until a pod has succeeded, and return its output. Raises `LocalError` if not."""

        def phase() -> str:
            return str(self.get(f"pod/{pod}")["status"]["phase"])

        until(lambda: phase() in ("Succeeded", "Failed"), timeout, f"the end of pod {pod}")
        printed = self.kubectl("logs", pod)
        if phase() == "Failed":
            raise LocalError(f"pod {pod} failed:\n{printed[-3000:]}")
        return printed


def until(condition: Callable[[], object], timeout: float, what: str) -> None:
    """Wait for a condition. Raises `LocalError` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise LocalError(f"waited {timeout:.0f} s for {what}")
        time.sleep(0.5)


def in_checkout(path: str) -> Path:
    return Path(__file__).parents[2] / path


def inside(*modules: str) -> dict[str, str]:
    """Return the files that a pod needs to run modules of `tests.e2e.inside`, by path."""
    packages = ("tests", "tests/e2e", "tests/e2e/inside")
    paths = [f"{package}/__init__.py" for package in packages] + [
        f"tests/e2e/inside/{name}.py" for name in modules
    ]
    return {path: in_checkout(path).read_text() for path in paths}


def run(command: list[str], stdin: str | None = None, timeout: float = 60) -> str:
    """Run a command and return its output. Raises `LocalError` with its errors."""
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise LocalError(f"{' '.join(command)}: no end within {timeout:.0f} s") from None
    if done.returncode:
        raise LocalError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-3000:]}")
    return done.stdout

"""A stub of the Kubernetes API server's HTTP for the real client.

It serves workloads, pods, logs, autoscalers, the proxy to pods, and exec. It keeps objects in the
API's form, selects by labels, and applies merge patches. It denies the requests that a test names,
with the API server's own texts. It starts no pod: a workload that is scaled to 0 loses its pods at
once.
"""

import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.exec_stub import Frames, ended, read_input, serve_exec
from tests.http_stub import HttpStub

Object = dict[str, Any]
_PLURALS = {"deployments": "Deployment", "statefulsets": "StatefulSet"}


class KubernetesStub(HttpStub):
    """Listens on a free port while its context is open."""

    def __init__(self) -> None:
        super().__init__()
        self.workloads: list[Object] = []
        self.pods: list[Object] = []
        self.autoscalers: list[Object] = []
        self.pages: dict[str, Object] = {}
        """`/status` by pod."""
        self.on_page: Callable[[str, str, dict[str, str]], tuple[int, Any] | None] = (
            lambda pod, page, query: None
        )
        """Answers for a pod's URL, by path and query. None means the answer in `pages`."""
        self.lines: dict[str, list[str]] = {}
        """Logs by pod."""
        self.past_lines: dict[str, list[str]] = {}
        """Logs of containers before a restart."""
        self.denied: set[tuple[str, str]] = set()
        """Denied requests: verb and resource."""
        self.patches: list[tuple[str, Object]] = []
        self.commands: list[tuple[str, list[str]]] = []
        """Commands that were run in pods: pod and command."""
        self.on_exec: Callable[[str, list[str]], Frames] = lambda pod, command: iter([ended(0)])
        self.read_input: Callable[[int], bytes] = lambda length: b""
        """Reads this many bytes of input of a running command."""
        self.on_scale: Callable[[str, int], object] = lambda name, replicas: None
        self.user = "operator"
        self.status: int | None = None
        """If set, the answer to every request."""

    # Setup by a test.

    def write_kubeconfig(self, path: Path, namespace: str = "streams") -> Path:
        """Write a kubeconfig for this server. It is JSON, which is valid YAML."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "stub",
            "clusters": [{"name": "stub", "cluster": {"server": self.url}}],
            "users": [{"name": "operator", "user": {"token": "t"}}],
            "contexts": [
                {
                    "name": "stub",
                    "context": {"cluster": "stub", "user": "operator", "namespace": namespace},
                },
                {"name": "other", "context": {"cluster": "stub", "user": "operator"}},
            ],
        }
        path.write_text(json.dumps(config))
        return path

    def add(
        self,
        component: str,
        kind: str,
        replicas: int = 1,
        *,
        topology: str = "wordcount",
        namespace: str = "streams",
        release: str = "wc",
        labels: dict[str, str] | None = None,
    ) -> None:
        """Add a component as the chart installs it, with running pods.

        `labels` replace those of the chart.
        """
        type = "Deployment" if kind == "bolt" else "StatefulSet"
        name = f"{release}-{component}"
        ours = {
            "kstorm.io/topology": topology,
            "kstorm.io/component": component,
            "kstorm.io/kind": kind,
            "app.kubernetes.io/instance": release,
            "helm.sh/chart": "kstorm-0.1.0",
        }
        labels = ours if labels is None else labels
        own = {"app": name}
        template = {
            "metadata": {"labels": own},
            "spec": {"containers": [{"name": kind, "image": f"kstorm-{kind}:1"}]},
        }
        spec: Object = {
            "replicas": replicas,
            "selector": {"matchLabels": own},
            "template": template,
        }
        if type == "StatefulSet":
            spec["serviceName"] = name
        self.workloads.append(
            {
                "apiVersion": "apps/v1",
                "kind": type,
                "metadata": {"name": name, "namespace": namespace, "labels": labels},
                "spec": spec,
                "status": {"replicas": replicas, "readyReplicas": replicas},
            }
        )
        for number in range(replicas):
            self.pods.append(self._pod(f"{name}-{number}", namespace, own, kind))

    def add_pod(self, name: str, labels: dict[str, str], container: str) -> Object:
        """Add a running pod that belongs to no workload, and return it."""
        self.pods.append(self._pod(name, "streams", labels, container))
        return self.pods[-1]

    def autoscale(
        self, component: str, type: str = "Deployment", scaled_object: str | None = None
    ) -> None:
        """Add a HorizontalPodAutoscaler of the workload. `scaled_object` names its KEDA owner."""
        owner = {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "name": scaled_object,
            "uid": "1",
        }
        self.autoscalers.append(
            {
                "metadata": {
                    "name": f"hpa-{component}",
                    "namespace": "streams",
                    "ownerReferences": [owner] if scaled_object else [],
                },
                "spec": {
                    "scaleTargetRef": {
                        "apiVersion": "apps/v1",
                        "kind": type,
                        "name": f"wc-{component}",
                    },
                    "minReplicas": 1,
                    "maxReplicas": 4,
                },
            }
        )

    def trouble(self, pod: str, reason: str, message: str) -> None:
        """Make the pod's container wait, so that it does not respond."""
        found = next(each for each in self.pods if each["metadata"]["name"] == pod)
        (container,) = found["status"]["containerStatuses"]
        container |= {"ready": False, "state": {"waiting": {"reason": reason, "message": message}}}
        self.pages.pop(pod, None)

    @staticmethod
    def _pod(name: str, namespace: str, labels: dict[str, str], container: str) -> Object:
        state = {"running": {"startedAt": "2026-11-01T00:00:00Z"}}
        status = {
            "name": container,
            "image": "i",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": state,
        }
        return {
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"nodeName": "node-1", "containers": [{"name": container, "image": "i"}]},
            "status": {"phase": "Running", "containerStatuses": [status]},
        }

    # Answers.

    def answer(self, method: str, path: str, body: Object) -> tuple[int, Any]:
        parts = urlsplit(path)
        query = {key: "\0".join(values) for key, values in parse_qs(parts.query).items()}
        if self.status is not None:
            return _status(self.status, "Unauthorized")
        where = re.fullmatch(
            r"/(?:apis?/(?P<group>apps|autoscaling)?/?v\d)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[a-z]+)"
            r"(?:/(?P<name>[^/]+)(?:/(?P<sub>.+))?)?",
            unquote(parts.path),
        )
        if where is None:
            return _status(404, f"the server could not find the requested resource {parts.path}")
        return self._resource(method, where.groupdict(), query, body)

    def _resource(
        self, method: str, where: dict[str, str | None], query: dict[str, str], body: Object
    ) -> tuple[int, Any]:
        sub = (where["sub"] or "").split("/")[0]
        resource = "/".join(filter(None, (where["resource"], sub)))
        verb = "patch" if method == "PATCH" else "get" if where["name"] else "list"
        if (verb, resource) in self.denied:
            return _status(403, self._denial(verb, resource, where))
        kind = where["resource"] or ""
        if kind in _PLURALS:
            found = [each for each in self.workloads if each["kind"] == _PLURALS[kind]]
        else:
            found = {"pods": self.pods, "horizontalpodautoscalers": self.autoscalers}.get(kind, [])
        found = [
            each for each in found if where["namespace"] in (None, each["metadata"]["namespace"])
        ]
        if where["name"] is None:
            selector = query.get("labelSelector", "")
            return 200, {
                "metadata": {},
                "items": [each for each in found if _selected(each, selector)],
            }
        name, _, port = where["name"].partition(":")
        for each in found:
            if each["metadata"]["name"] == name:
                rest = (where["sub"] or "").removeprefix(sub).removeprefix("/")
                return self._one(each, method, sub, rest, port, query, body)
        return _status(404, f'{kind} "{name}" not found')

    def _one(
        self,
        found: Object,
        method: str,
        sub: str,
        page_name: str,
        port: str,
        query: dict[str, str],
        body: Object,
    ) -> tuple[int, Any]:
        name = found["metadata"]["name"]
        if sub == "proxy" and (answered := self.on_page(name, page_name, query)) is not None:
            return answered
        if sub == "proxy":
            page = self.pages.get(name) if port == "6066" else None
            return (
                (200, page)
                if page is not None
                else _status(503, "error trying to reach service: connection refused")
            )
        if sub == "log":
            if query.get("previous") == "true":
                if name not in self.past_lines:
                    of = f'container "{query["container"]}" in pod "{name}"'
                    return _status(400, f"previous terminated {of} not found")
                lines = self.past_lines[name]
            elif name not in self.lines:
                return _status(
                    400, f'container "{query["container"]}" in pod "{name}" is waiting to start'
                )
            else:
                lines = self.lines[name]
            lines = lines[-int(query.get("tailLines", "1000")) :]
            return 200, "".join(f"{line}\n" for line in lines).encode()
        if sub == "exec":
            command = query["command"].split("\0")
            self.commands.append((name, command))
            return 101, lambda handler: self._exec(handler, name, command)
        if method == "PATCH":
            self.patches.append((name, body))
            _merge(found, body)
            if sub == "scale":
                self.on_scale(name, found["spec"]["replicas"])
            if found["spec"].get("replicas") == 0:
                own = found["spec"]["selector"]["matchLabels"]
                self.pods = [pod for pod in self.pods if pod["metadata"]["labels"] != own]
            return 200, {
                "metadata": {"name": name},
                "spec": {"replicas": 1},
            } if sub == "scale" else found
        return 200, found

    def _exec(self, handler: BaseHTTPRequestHandler, pod: str, command: list[str]) -> None:
        self.read_input = lambda length: read_input(handler, length)
        serve_exec(handler, self.on_exec(pod, command))

    def _denial(self, verb: str, resource: str, where: dict[str, str | None]) -> str:
        group = where["group"] or ""
        place = (
            f'in the namespace "{where["namespace"]}"'
            if where["namespace"]
            else "at the cluster scope"
        )
        return (
            f'{resource.split("/")[0]} is forbidden: User "{self.user}" cannot {verb} resource "{resource}" in API group '
            f'"{group}" {place}'
        )


def _selected(found: Object, selector: str) -> bool:
    """Match `a=b`, `a`, and `a in (b,c)`, joined by commas."""
    labels = found["metadata"].get("labels", {})
    for term in filter(None, re.split(r",(?![^(]*\))", selector)):
        among = re.fullmatch(r"(\S+) in \((.*)\)", term)
        key, equals, value = term.partition("=")
        if among is not None:
            if labels.get(among[1]) not in among[2].split(","):
                return False
        elif key not in labels or (equals and labels[key] != value):
            return False
    return True


def _merge(found: Object, patch: Object) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            _merge(found.setdefault(key, {}), value)
        else:
            found[key] = value


def _status(code: int, message: str) -> tuple[int, Object]:
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "code": code,
    }

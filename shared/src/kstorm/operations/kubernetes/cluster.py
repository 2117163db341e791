"""Requests to Kubernetes, with the official client and the user's kubeconfig.

If Kubernetes denies a request or cannot be reached, methods raise a `ControlError` with a one-line
message.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO

from kstorm.errors import ControlError
from kstorm.operations.kubernetes.api_errors import (
    in_one_line,
    innermost,
    is_silence,
    refusal_of,
)
from kstorm.operations.kubernetes.pod_exec import execute
from kstorm.operations.kubernetes.workloads import (
    COMPONENT,
    KIND,
    PART,
    PREPARES,
    RELEASE,
    SELECTOR,
    TOPOLOGY,
    Autoscaler,
    Pod,
    Workload,
    autoscaler_of,
    pod_of,
    workload_of,
)

WEB_PORT: Final = 6066
"""HTTP port of a service's pod."""
_PATIENCE: Final = (5.0, 30.0)
"""Timeouts in seconds to connect and to receive a response."""
_PAGE_PATIENCE: Final = (5.0, 5.0)
_STATUS_PATIENCE: Final = (5.0, 3.0)
"""The chart's readiness probes have the same timeout. The operator waits this long for a hung process."""
_STARTING: Final = ("ContainerCreating", "PodInitializing")
"""Reasons for which a pod waits without having a problem."""
_OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"


class Cluster:
    """One namespace of a cluster. Every method raises `ControlError` if Kubernetes refuses."""

    def __init__(self, api: Any, namespace: str, context: str) -> None:
        from kubernetes import client

        self.namespace = namespace
        self.context = context
        """Context of the kubeconfig. Empty for a pod's own cluster."""
        self._api, self._host = api, api.configuration.host
        self._apps, self._core = client.AppsV1Api(api), client.CoreV1Api(api)
        self._autoscaling = client.AutoscalingV2Api(api)

    def __str__(self) -> str:
        context = f"the context {self.context}" if self.context else "the cluster of this pod"
        return f"{context}, namespace {self.namespace}"

    def workloads(self, everywhere: bool = False) -> Sequence[Workload]:
        """Return the workloads of all topologies, spouts before bolts before ackers.

        `everywhere` includes all namespaces.
        """
        found = [
            workload_of(item, type)
            for type, item in self._list(everywhere, label_selector=SELECTOR)
        ]
        return sorted(
            found,
            key=lambda each: (each.namespace, each.topology, _ORDER[each.kind], each.component),
        )

    def strangers(self, name: str) -> Sequence[str]:
        """Return workloads with this name or release that lack one of kstorm's labels."""
        found = []
        for type, item in self._list():
            labels = item.metadata.labels or {}
            named = name in (item.metadata.name, labels.get(RELEASE), labels.get(TOPOLOGY))
            if named and not {TOPOLOGY, COMPONENT, KIND} <= labels.keys():
                found.append(f"{type}/{item.metadata.name}")
        return found

    def pods(self, workload: Workload) -> Sequence[Pod]:
        """Return the workload's pods, sorted by name."""
        return self._pods(workload.namespace, workload.selector)

    def stopped_check(self, release: str = "") -> str:
        """Return the pod whose check stops an install or upgrade, with the reason, or empty.

        Without a release, the pods of all releases count. A check that succeeded has no pod.
        """
        of_release = f",{RELEASE}={release}" if release else ""
        pods = self._pods(self.namespace, f"{PART}={PREPARES}{of_release}")
        stopped = (pod for pod in pods if pod.trouble and pod.trouble not in _STARTING)
        return next((f"{pod.name}: {pod.trouble}" for pod in stopped), "")

    def _pods(self, namespace: str, selector: str) -> Sequence[Pod]:
        with self._errors():
            found = self._core.list_namespaced_pod(
                namespace, label_selector=selector, _request_timeout=_PATIENCE
            )
        return sorted(map(pod_of, found.items), key=lambda pod: pod.name)

    def autoscaler(self, workload: Workload) -> Autoscaler | None:
        with self._errors():
            found = self._autoscaling.list_namespaced_horizontal_pod_autoscaler(
                workload.namespace, _request_timeout=_PATIENCE
            )
        scalers = map(autoscaler_of, found.items)
        return next(
            (
                each
                for each in scalers
                if (each.type, each.target) == (workload.type, workload.name)
            ),
            None,
        )

    def status(self, pod: Pod) -> dict[str, Any] | None:
        """Return the pod's `/status`, or None as `page` does."""
        return self.page(pod, "status", _STATUS_PATIENCE)

    def page(
        self, pod: Pod, name: str, patience: tuple[float, float] = _PAGE_PATIENCE
    ) -> dict[str, Any] | None:
        """Return a JSON page of the pod through the API server's proxy.

        None if the pod does not respond or has no such page.
        """
        with self._errors(absent=is_silence):
            answer = self._core.connect_get_namespaced_pod_proxy_with_path(
                f"{pod.name}:{WEB_PORT}",
                pod.namespace,
                name,
                _preload_content=False,
                _request_timeout=patience,
            )
            try:
                found = json.loads(answer.data)
            except ValueError:
                return None
            return found if isinstance(found, dict) else None
        return None

    def question(
        self, pod: Pod, name: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[int, dict[str, Any]] | None:
        """Like `page`, but send a query and headers, and also return the pod's HTTP status."""
        from kubernetes.client import ApiException

        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}:{WEB_PORT}/proxy/{name}"
        request = self._api.param_serialize(
            "GET",
            path,
            query_params=list(query.items()),
            header_params={"Accept": "*/*", **headers},
            auth_settings=["BearerToken"],
        )
        with self._errors(absent=is_silence):
            answer = self._api.call_api(*request, _request_timeout=_PAGE_PATIENCE)
            content = answer.read()
            try:
                found = json.loads(content)
            except ValueError:
                return None
            if isinstance(found, dict) and found.get("kind") != "Status":
                return answer.status, found
            raise ApiException.from_response(http_resp=answer, body=None, data=None)
        return None

    def scale(self, workload: Workload, replicas: int) -> None:
        body = {"spec": {"replicas": replicas}}
        patch = {
            "deployment": self._apps.patch_namespaced_deployment_scale,
            "statefulset": self._apps.patch_namespaced_stateful_set_scale,
        }[workload.type]
        with self._errors():
            patch(workload.name, workload.namespace, body, _request_timeout=_PATIENCE)

    def restart(self, workload: Workload) -> None:
        """Replace the pods one after the other, like `kubectl rollout restart`."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        body = {"spec": {"template": {"metadata": {"annotations": {_RESTARTED_AT: now}}}}}
        patch = {
            "deployment": self._apps.patch_namespaced_deployment,
            "statefulset": self._apps.patch_namespaced_stateful_set,
        }[workload.type]
        with self._errors():
            patch(workload.name, workload.namespace, body, _request_timeout=_PATIENCE)

    def logs(
        self,
        pod: Pod,
        follow: bool,
        tail: int | None,
        *,
        previous: bool = False,
        most_bytes: int | None = None,
    ) -> Iterator[str]:
        """Yield the lines of the service's log.

        `follow` continues until the pod ends. `previous` reads the container before the last
        restart.
        """
        given = {"tail_lines": tail, "limit_bytes": most_bytes, "previous": previous or None}
        options: dict[str, Any] = {
            name: value for name, value in given.items() if value is not None
        }
        # Following must not time out while the service logs nothing.
        if not follow:
            options["_request_timeout"] = _PATIENCE
        with self._errors():
            answer = self._core.read_namespaced_pod_log(
                pod.name,
                pod.namespace,
                container=pod.container,
                follow=follow,
                _preload_content=False,
                **options,
            )
            rest = b""
            for chunk in answer.stream(decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line.decode(errors="replace") for line in lines)
            if rest:
                yield rest.decode(errors="replace")

    def execute(
        self,
        pod: Pod,
        command: Sequence[str],
        given: bytes | None = None,
        out: TextIO | None = None,
        errors: TextIO | None = None,
    ) -> int:
        """Run a command in the service's container and return its exit code.

        `given` is its input. Its output is printed, or written to `out` and `errors`. Until it
        returns, no other thread may use this object, because the client cannot execute a command
        and send requests at the same time.
        """
        with self._errors():
            return execute(self._core, pod, command, given, out, errors)

    def another(self) -> "Cluster":
        """Return a copy with its own connections."""
        return open_cluster(self.namespace, self.context or None)

    def _list(self, everywhere: bool = False, **options: str) -> Iterator[tuple[str, Any]]:
        """Yield Deployments and StatefulSets, each with its type."""
        apps = self._apps
        listings = {
            "deployment": (
                apps.list_namespaced_deployment,
                apps.list_deployment_for_all_namespaces,
            ),
            "statefulset": (
                apps.list_namespaced_stateful_set,
                apps.list_stateful_set_for_all_namespaces,
            ),
        }
        for type, (here, anywhere) in listings.items():
            with self._errors():
                listing = anywhere if everywhere else partial(here, self.namespace)
                found = listing(_request_timeout=_PATIENCE, **options).items
            yield from ((type, item) for item in found)

    @contextmanager
    def _errors(self, absent: Callable[[Any], bool] = lambda error: False) -> Iterator[None]:
        """`absent` decides whether an error only means that the object does not exist."""
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            yield
        except ApiException as error:
            if not absent(error):
                raise ControlError(refusal_of(error)) from None
        except (HTTPError, OSError) as error:
            if absent(error):
                return
            raise ControlError(
                f"Kubernetes at {self._host} cannot be reached ({innermost(error)}): is the "
                "cluster up, and is this the right context?"
            ) from None


_ORDER: Final = {"spout": 0, "bolt": 1, "acker": 2}


def is_named() -> bool:
    """Return True if `open_cluster` has a kubeconfig, or this is a pod."""
    return "KUBERNETES_SERVICE_HOST" in os.environ or any(file.exists() for file in _files())


def missing_file() -> str:
    """Explain that there is no kubeconfig, and where it was looked for."""
    given = os.environ.get("KUBECONFIG")
    return (
        f"the kubeconfig {given} that KUBECONFIG names does not exist"
        if given
        else f"there is no kubeconfig ({_default_file()})"
    )


def open_cluster(namespace: str | None, context: str | None) -> Cluster:
    """Connect to the kubeconfig's cluster, or in a pod to the pod's own.

    `namespace` defaults to the context's. Raises `ControlError` if no cluster is configured.
    """
    try:
        from kubernetes import client, config
        from urllib3 import Retry
    except ModuleNotFoundError as error:
        raise ControlError(
            f"this needs the module {error.name!r}, which is not installed: pip install 'kstorm[control]'"
        ) from None
    settings = client.Configuration()
    settings.retries = Retry(1, read=0)
    file = os.environ.get("KUBECONFIG") or None
    try:
        if file is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(client_configuration=settings)
            namespace, context = namespace or _OWN_NAMESPACE.read_text().strip(), ""
        else:
            file = file or str(_default_file())
            if not any(each.exists() for each in _files()):
                raise ControlError(f"no cluster: {missing_file()}; set KUBECONFIG")
            config.load_kube_config(file, context, client_configuration=settings)
            context, of_context = _context_of(config, file, context)
            namespace = namespace or of_context
    except ControlError:
        raise
    # A kubeconfig can have any kind of mistake, and may run any login program.
    except Exception as error:  # noqa: BLE001
        raise ControlError(
            f"no cluster: the kubeconfig {file or 'of this pod'} cannot be used "
            f"({in_one_line(error)}); set KUBECONFIG or --context"
        ) from None
    return Cluster(client.ApiClient(settings), namespace, context)


def _files() -> Sequence[Path]:
    """Return the kubeconfigs, of which KUBECONFIG may name several."""
    given = os.environ.get("KUBECONFIG")
    return [Path(each) for each in given.split(os.pathsep)] if given else [_default_file()]


def _default_file() -> Path:
    return Path("~/.kube/config").expanduser()


def _context_of(config: Any, file: str, context: str | None) -> tuple[str, str]:
    """Return the name and namespace of the chosen context."""
    contexts, current = config.list_kube_config_contexts(file)
    chosen = (
        current if context is None else next(each for each in contexts if each["name"] == context)
    )
    return str(chosen["name"]), str(chosen["context"].get("namespace") or "default")

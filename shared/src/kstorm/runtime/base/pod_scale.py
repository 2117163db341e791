"""Decide whether a pod that is being stopped comes back. Pods of a StatefulSet come back under the
same name, unless they were scaled away.

Kubernetes sends SIGTERM in both cases. The two cases differ only in the StatefulSet's number of
replicas, which is always set before the first pod is stopped. So the pod queries this number
(docs/development/adr/0015).
"""

import os
import re
import ssl
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from kstorm.errors import ConfigError, ControlError

if TYPE_CHECKING:
    from kstorm.runtime.base.log import Logger

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# timeout of each step, during which the process keeps working
_PATIENCE_SECONDS: Final = 2.0
_MOST_BYTES: Final = 1 << 20


class _Spec(msgspec.Struct):
    replicas: int = 0  # the API leaves out a 0


class _Scale(msgspec.Struct):
    kind: Literal["Scale"]
    spec: _Spec = msgspec.field(default_factory=_Spec)


def pod_number(instance: str, stateful_set: str) -> int:
    """Return a pod's number in its StatefulSet. Raises `ConfigError` if the pod does not belong to
    the StatefulSet."""
    found = re.fullmatch(re.escape(stateful_set) + r"-([0-9]{1,9})", instance)
    if found is None:
        raise ConfigError(
            f"KSTORM_INSTANCE is {instance!r}, which is not a pod of KSTORM_STATEFUL_SET "
            f"{stateful_set!r}: give the pod's name, such as {stateful_set}-0, or leave "
            "KSTORM_STATEFUL_SET out"
        )
    return int(found[1])


def is_scaled_away(instance: str, stateful_set: str, log: "Logger") -> bool:
    """Return True if a pod of a StatefulSet will not come back, and False if it will or if
    Kubernetes does not respond."""
    if not stateful_set:
        return False
    try:
        replicas = _replicas(stateful_set)
    except (ControlError, OSError, HTTPException, ValueError) as error:
        log.warning(
            "scale_unknown",
            stateful_set=stateful_set,
            error=str(error) or type(error).__name__,
            hint="its tasks wait for its return until the session timeout; a Role must allow get "
            "on statefulsets/scale, and network policies must allow connections to the API "
            "server",
        )
        return False
    away = pod_number(instance, stateful_set) >= replicas
    if away:
        log.info("scaled_away", stateful_set=stateful_set, replicas=replicas)
    return away


def _replicas(stateful_set: str) -> int:
    """Return the StatefulSet's number of replicas, or 0 if it was deleted."""
    namespace = (ACCOUNT / "namespace").read_text().strip()
    connection = _connection()
    try:
        connection.request(
            "GET",
            f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{stateful_set}/scale",
            headers={
                "Authorization": f"Bearer {(ACCOUNT / 'token').read_text().strip()}",
                "Accept": "application/json",
            },
        )
        return _replicas_in(connection.getresponse())
    finally:
        connection.close()


def _connection() -> HTTPSConnection:
    """Connect to the API server from the pod's environment, without a proxy."""
    host, port = (
        os.environ.get("KUBERNETES_SERVICE_HOST"),
        os.environ.get("KUBERNETES_SERVICE_PORT_HTTPS", "443"),
    )
    if not host:
        raise ControlError("KUBERNETES_SERVICE_HOST is not set, so this is not a pod")
    trusted = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
    return HTTPSConnection(host, int(port), timeout=_PATIENCE_SECONDS, context=trusted)


def _replicas_in(answer: HTTPResponse) -> int:
    if answer.status == 404:
        return 0
    if answer.status != 200:
        raise ControlError(f"the API server answered {answer.status} {answer.reason}")
    return msgspec.json.decode(answer.read(_MOST_BYTES), type=_Scale).spec.replicas

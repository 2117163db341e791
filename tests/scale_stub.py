"""A stub of the Kubernetes API server as a pod sees it.

It has TLS with the authority in the pod's service account, a token, and scales.
"""

import ssl
from pathlib import Path
from typing import Any

import pytest

from kstorm.runtime.base import pod_scale
from tests.http_stub import HttpStub
from tests.integration.certificates import Authority

TOKEN = "a-token"


class ScaleStub(HttpStub):
    """Serves the desired replicas of the StatefulSets in the namespace `words`."""

    def __init__(self, authority: Authority, certificate: Path, account: Path) -> None:
        """`certificate` is signed by `authority`.

        `account` is the folder of this process's service account.
        """
        super().__init__()
        self.replicas: dict[str, int] = {}
        """Replicas by StatefulSet. All others do not exist."""
        self.refusal: tuple[int, Any] | None = None
        """If set, the answer to every request."""
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(certificate)
        self._server.socket = own.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # an untrusting client hangs up
        self._authority, self._account = authority, account

    def make_this_a_pod(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make this process a pod of the cluster."""
        self._account.mkdir()
        (self._account / "namespace").write_text("words")
        (self._account / "token").write_text(TOKEN)
        (self._account / "ca.crt").write_bytes(self._authority.certificate.read_bytes())
        monkeypatch.setattr(pod_scale, "ACCOUNT", self._account)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT_HTTPS", str(self._server.server_port))

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if self.refusal is not None:
            return self.refusal
        name = path.removeprefix("/apis/apps/v1/namespaces/words/statefulsets/").removesuffix(
            "/scale"
        )
        if method != "GET" or name not in self.replicas:
            return 404, {"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404}
        # the API leaves out a 0
        spec = {"replicas": self.replicas[name]} if self.replicas[name] else {}
        return 200, {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {"name": name},
            "spec": spec,
        }

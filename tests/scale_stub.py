"""A stub of the Kubernetes API server as a pod meets it: TLS by an authority that the pod's account names, a token, and scales."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from kstorm.runtime.service import scale
from tests.http_stub import HttpStub
from tests.integration.certificates import Authority

TOKEN = "a-token"


class ScaleStub(HttpStub):
    """Says of the StatefulSets in the namespace `words` how many replicas they are to have."""

    def __init__(self, authority: Authority, certificate: Path, account: Path) -> None:
        """`certificate` is signed by `authority`; `account` is where this process's account will be."""
        super().__init__()
        self.replicas: dict[str, int] = {}
        """By StatefulSet; none that is not here exists."""
        self.refusal: tuple[int, Any] | None = None
        """Answers this to everything."""
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(certificate)
        self._server.socket = own.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # who does not trust it hangs up
        self._authority, self._account = authority, account

    def make_this_a_pod(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of its cluster."""
        self._account.mkdir()
        (self._account / "namespace").write_text("words")
        (self._account / "token").write_text(TOKEN)
        (self._account / "ca.crt").write_bytes(self._authority.certificate.read_bytes())
        monkeypatch.setattr(scale, "ACCOUNT", self._account)
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
        spec = {"replicas": self.replicas[name]} if self.replicas[name] else {}  # it leaves a 0 out
        return 200, {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {"name": name},
            "spec": spec,
        }

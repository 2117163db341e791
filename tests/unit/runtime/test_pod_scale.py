"""A stopping pod of a StatefulSet asks Kubernetes if it returns. An unknown answer means yes."""

import socket
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from kstorm.errors import ConfigError
from kstorm.runtime.base import pod_scale
from kstorm.runtime.base.pod_scale import is_scaled_away
from kstorm.runtime.base.settings import from_environment
from tests.integration.certificates import Authority
from tests.scale_stub import TOKEN, ScaleStub

LOG = structlog.get_logger()
SET = "wc-count"


@pytest.mark.parametrize(
    ("replicas", "number", "away"),
    [
        pytest.param(3, 2, False, id="restarted"),
        pytest.param(2, 2, True, id="the last one is scaled away"),
        pytest.param(1, 2, True, id="two are"),
        pytest.param(0, 0, True, id="all are"),
        pytest.param(11, 10, False, id="numbers and no texts"),
    ],
)
def test_a_pod_stays_away_if_its_number_is_too_high(
    api_server: ScaleStub, replicas: int, number: int, away: bool
) -> None:
    """The pod queries its StatefulSet with the account's token."""
    api_server.replicas = {SET: replicas, "wc": 0, "wc-count-1": 9}
    with capture_logs() as lines:
        assert is_scaled_away(f"{SET}-{number}", SET, LOG) is away
    assert [line["event"] for line in lines] == ["scaled_away"] * away
    assert api_server.requests == [f"GET /apis/apps/v1/namespaces/words/statefulsets/{SET}/scale"]
    assert api_server.headers[0]["Authorization"] == f"Bearer {TOKEN}"


def test_pod_of_a_deleted_stateful_set_leaves(api_server: ScaleStub) -> None:
    """Kubernetes does not restart it."""
    api_server.replicas = {"wc-acker": 1}
    assert is_scaled_away(f"{SET}-0", SET, LOG)


def test_process_outside_a_stateful_set_makes_no_query(api_server: ScaleStub) -> None:
    """Examples are a pod of a Deployment, and a process outside Kubernetes."""
    assert not is_scaled_away("wc-split-7f9c-x", "", LOG)
    assert api_server.requests == []


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        pytest.param((403, {"kind": "Status", "code": 403}), "403 Forbidden", id="no right"),
        pytest.param(
            (401, {"kind": "Status", "code": 401}), "401 Unauthorized", id="no such account"
        ),
        pytest.param((500, b"oops"), "500 Internal Server Error", id="broken"),
        pytest.param((200, {"kind": "Table"}), "'Table'", id="something else"),
        pytest.param((200, b"<html>"), "malformed", id="no JSON"),
    ],
)
def test_refused_query_is_logged_and_the_tasks_wait(
    api_server: ScaleStub, refusal: tuple[int, Any], says: str
) -> None:
    """The fallback is the behaviour without a query: its tasks wait for the pod."""
    api_server.refusal = refusal
    assert says in why_unknown()


def test_token_is_not_sent_to_an_untrusted_server(api_server: ScaleStub, tmp_path: Path) -> None:
    """The reason does not name the pods that stay away."""
    other = Authority(tmp_path / "other", "stranger")
    (pod_scale.ACCOUNT / "ca.crt").write_bytes(other.certificate.read_bytes())
    assert "CERTIFICATE_VERIFY_FAILED" in why_unknown()
    assert api_server.headers == []


def test_an_api_server_that_does_not_answer_is_not_waited_for(
    api_server: ScaleStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network policy may drop packets. This server accepts the connection and never responds."""
    monkeypatch.setattr(pod_scale, "_PATIENCE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT_HTTPS", str(silent.getsockname()[1]))
        assert "timed out" in why_unknown()
    assert "refused" in why_unknown()


def test_tasks_wait_for_a_pod_without_a_token(
    api_server: ScaleStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for a process outside Kubernetes."""
    (pod_scale.ACCOUNT / "token").unlink()
    assert "No such file" in why_unknown()
    (pod_scale.ACCOUNT / "token").write_text(TOKEN)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert "KUBERNETES_SERVICE_HOST is not set" in why_unknown()


def why_unknown() -> str:
    """Makes the query, and returns the reason in its single log line."""
    with capture_logs() as lines:
        assert not is_scaled_away(f"{SET}-2", SET, LOG)
    (line,) = lines
    assert (line["event"], line["log_level"], line["stateful_set"]) == (
        "scale_unknown",
        "warning",
        SET,
    )
    assert "statefulsets/scale" in line["hint"]
    return str(line["error"])


@pytest.mark.parametrize(
    "instance", ["count-0", "wc-count", "wc-count-x", "wc-count-1-0", "other-wc-count-0"]
)
def test_instance_outside_the_stateful_set_is_refused(instance: str) -> None:
    """The error comes at the start, not at the stop."""
    environment = {
        "KSTORM_TOPOLOGY": "a:b",
        "KSTORM_STATEFUL_SET": SET,
        "KSTORM_INSTANCE": instance,
    }
    with pytest.raises(
        ConfigError, match=f"KSTORM_INSTANCE is '{instance}', which is not a pod of .* 'wc-count'"
    ):
        from_environment(environment)
    assert from_environment(environment | {"KSTORM_INSTANCE": "wc-count-12"}).stateful_set == SET

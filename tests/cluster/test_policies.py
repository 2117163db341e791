"""The chart's NetworkPolicies, enforced, allow exactly the connections that docs/guides/security.md lists."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cluster.conftest import TAG, Install
from tests.cluster.enforcer import Enforcer
from tests.conftest import Eventually
from tests.e2e.kube import Kube
from tests.e2e.release import Release
from tests.e2e.wordcount import WORDCOUNT

pytestmark = pytest.mark.timeout(1800)

NAMESPACE, ELSEWHERE = "kstorm-policies", "kstorm-strangers"
API_SERVER = "kubernetes.default:443"
TRY = """
import json, socket, sys
def reaches(place):
    host, port = place.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 3).close()
    except OSError:
        return False
    return True
print(json.dumps({place: reaches(place) for place in sys.argv[1:]}))
"""


@dataclass(frozen=True)
class Places:
    """Pods that try to connect to each other."""

    release: Release
    elsewhere: Kube

    @property
    def own(self) -> Kube:
        return self.release.kube

    def pod_of(self, component: str) -> str:
        return self.release.pods(component)[0]

    def address(self, kube: Kube, pod: str, port: int) -> str:
        return f"{kube.get(f'pod/{pod}')['status']['podIP']}:{port}"

    def reached(self, kube: Kube, pod: str, *places: str) -> dict[str, bool]:
        """Try to connect from a pod to each place, `host:port`."""
        found: dict[str, bool] = json.loads(
            kube.kubectl("exec", pod, "--", "python3", "-c", TRY, *places)
        )
        return found

    @property
    def page(self) -> str:
        """Return the web port of a bolt."""
        return self.address(self.own, self.pod_of("split"), 6066)

    @property
    def servers(self) -> list[str]:
        """Return the release's Kafka and ZooKeeper."""
        return [
            f"{WORDCOUNT.name}-{name}.{NAMESPACE}.svc:{port}"
            for name, port in (("kafka", 9092), ("zookeeper", 2181))
        ]

    @property
    def outside(self) -> str:
        """Return a server of another namespace."""
        return self.address(self.elsewhere, "stranger", 8080)


@pytest.fixture(scope="module")
def places(install: Install) -> Iterator[Places]:
    """A release with restricted pods, a stranger in its namespace, and one in another namespace."""
    with install(NAMESPACE, {"networkPolicy": {"egress": {"enabled": True}}}) as release:
        elsewhere = Kube(ELSEWHERE)
        elsewhere.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ELSEWHERE}})
        try:
            for kube, name in ((elsewhere, "stranger"), (release.kube, "neighbour")):
                kube.run_pod(
                    name, f"kstorm-spout:{TAG}", ["python3", "-m", "http.server", "8080"], {}
                )
                kube.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
            yield Places(release, elsewhere)
        finally:
            elsewhere.kubectl("delete", "namespace", ELSEWHERE, "--wait", timeout=300)


@pytest.fixture(scope="module")
def enforced(places: Places, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """Check that every pod can reach every place, then enforce the policies."""
    everything = [places.page, *places.servers, places.outside]
    assert all(places.reached(places.elsewhere, "stranger", *everything).values())
    assert all(places.reached(places.own, places.pod_of("split"), *everything, API_SERVER).values())
    with Enforcer(places.own, tmp_path_factory.mktemp("enforcer")):
        yield places


def test_stranger_in_another_namespace_reaches_nothing(
    enforced: Places, eventually: Eventually
) -> None:
    """It reaches neither the web ports nor the development servers."""
    wanted = [enforced.page, *enforced.servers]
    eventually(
        lambda: not any(enforced.reached(enforced.elsewhere, "stranger", *wanted).values()), 60
    )


def test_pods_of_the_namespace_reach_web_ports_and_servers(enforced: Places) -> None:
    found = enforced.reached(enforced.own, "neighbour", enforced.page, *enforced.servers)
    assert all(found.values()), found


def test_release_reaches_itself(enforced: Places) -> None:
    """The test connects by name, so DNS works too."""
    for component in ("sentences", "split", "count", "sink", "acker"):
        found = enforced.reached(
            enforced.own, enforced.pod_of(component), enforced.page, *enforced.servers
        )
        assert all(found.values()), (component, found)


def test_egress_reaches_nothing_outside_the_release(
    enforced: Places, eventually: Eventually
) -> None:
    """Only pods that query their scale reach the API server."""

    def found() -> Mapping[str, Any]:
        asked = (enforced.outside, API_SERVER)
        return {
            each: enforced.reached(enforced.own, enforced.pod_of(each), *asked)
            for each in ("split", "count")
        }

    nobody = {enforced.outside: False, API_SERVER: False}
    eventually(lambda: found() == {"split": nobody, "count": {**nobody, API_SERVER: True}}, 60)


def test_pods_stay_ready_and_work(enforced: Places) -> None:
    """The kubelet reaches their probes, and messages are processed."""
    enforced.release.await_ready()
    enforced.release.test()


def test_metrics_from_replaces_the_own_namespace(enforced: Places, eventually: Eventually) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ELSEWHERE}}}
    enforced.release.set_value("networkPolicy.metricsFrom", [peer])
    page = enforced.page
    eventually(lambda: enforced.reached(enforced.elsewhere, "stranger", page)[page], 60)
    assert not any(enforced.reached(enforced.elsewhere, "stranger", *enforced.servers).values())
    assert not enforced.reached(enforced.own, "neighbour", page)[page]
    assert enforced.reached(enforced.own, enforced.pod_of("count"), page)[page]

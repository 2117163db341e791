"""The release under test: word count with a Kafka and a ZooKeeper of its own, fed and audited by pods beside it."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kstorm.errors import LocalError
from kstorm.local.audit import Audited
from kstorm.local.images.__main__ import SERVICES
from tests.e2e.kube import Kube, in_checkout, run, until
from tests.e2e.pipeline import VALUES as PIPELINE_VALUES
from tests.e2e.pipeline import Counted, Pipeline

NAME: Final = "wordcount"
SOURCE: Final = "sentences"
SINK: Final = "word-counts"
SPOUT: Final = "sentences"
BOLTS: Final = ("split", "count", "sink")
ACKER: Final = "acker"
_TOPOLOGY: Final = "examples.wordcount.topology:topology"
_CHART: Final = in_checkout("helm/kstorm")
_VALUES: Final = Path(__file__).with_name("values.yaml")
_TEXTS: Final = ("README.md", "docs/guarantees.md", "docs/kafka.md", "docs/testing.md")
_PATIENCE_SECS: Final = 60


@dataclass(frozen=True, slots=True)
class Sample:
    """What the feeding pod saw at one moment."""

    at: float
    """Seconds since 1970, by its clock."""
    taken: int
    """Messages that Kafka had taken."""
    sink: int
    """Records in the sink."""


class Release:
    """Installs, changes and removes it; `more` are values over those of `values.yaml`."""

    def __init__(self, kube: Kube, tag: str, workdir: Path, more: Mapping[str, Any] | None = None) -> None:
        self.kube, self.tag, self._services_tag = kube, tag, tag
        self.pipeline, self._has_pipeline = Pipeline(kube, NAME), False
        self._generated = workdir / "values.yaml"
        self._generated.write_text(values_of(_TOPOLOGY))
        self._more = workdir / "more.yaml"
        self._more.write_text(json.dumps(more or {}))

    def install(self) -> None:
        """`helm install --wait`, into a namespace that lets nothing run but what the restricted profile allows."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        name = self.kube.namespace
        self.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        self.kube.helm("install", NAME, str(_CHART), *self._values())

    def upgrade(self, tag: str) -> None:
        """`helm upgrade --wait` to the services' images of another tag."""
        self._services_tag = tag
        self.kube.helm("upgrade", NAME, str(_CHART), *self._values())

    def set_value(self, name: str, value: object) -> None:
        """`helm upgrade --wait` with one value changed, such as `networkPolicy.metricsFrom`."""
        changed = ("--set-json", f"{name}={json.dumps(value)}")
        self.kube.helm("upgrade", NAME, str(_CHART), *self._values(), *changed)

    def add_pipeline(self) -> None:
        """`helm upgrade --wait` to the same with the pipeline, which reads all that the sink has; waits for its first batch."""
        self._has_pipeline = True
        self.upgrade(self._services_tag)
        self.pipeline.await_batch()

    def test(self) -> None:
        self.kube.helm("test", NAME, "--timeout", "3m")

    def uninstall(self) -> list[str]:
        """`helm uninstall --wait`; what is left of the release, but for claims of volumes."""
        self.kube.helm("uninstall", NAME, "--wait", "--timeout", "3m")
        kinds = "all,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,jobs"
        mine = ("-l", f"app.kubernetes.io/instance={NAME}")
        until(lambda: not self.kube.items("pods", *mine), 120, "the end of the release's pods")
        return [f"{item['kind']}/{item['metadata']['name']}" for item in self.kube.items(kinds, *mine)]

    def workload(self, component: str) -> str:
        """The Deployment or StatefulSet of a component, as `kubectl` names it."""
        label = f"app.kubernetes.io/instance={NAME},kstorm.io/component={component}"
        (found,) = self.kube.items("deployments,statefulsets", "-l", label)
        return f"{found['kind'].lower()}/{found['metadata']['name']}"

    def workloads(self) -> list[str]:
        return [self.workload(component) for component in (SPOUT, *BOLTS, ACKER)]

    def server(self, name: str) -> str:
        """The StatefulSet of the release's own Kafka or ZooKeeper."""
        return f"statefulset/{NAME}-{name}"

    def pods(self, component: str) -> list[str]:
        """Names of a component's pods."""
        label = f"app.kubernetes.io/instance={NAME},kstorm.io/component={component}"
        return [pod["metadata"]["name"] for pod in self.kube.items("pods", "-l", label)]

    def container_starts(self) -> dict[str, int]:
        """By pod of a component, how often its container was started again."""
        label = f"app.kubernetes.io/instance={NAME},kstorm.io/component"
        return {
            pod["metadata"]["name"]: sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
            for pod in self.kube.items("pods", "-l", label)
        }

    def await_ready(self) -> None:
        """Waits until every component is as it should be."""
        for workload in self.workloads():
            self.kube.roll_out(workload)

    # What the operator's command does.

    def kstorm(self, verb: str, *arguments: str) -> str:
        """`kstorm VERB wordcount …`, from this machine, which cannot reach the release's ZooKeeper."""
        command = [sys.executable, "-m", "kstorm.cli", verb, NAME, *arguments, "--namespace", self.kube.namespace]
        return run(command, timeout=300)

    def kill(self) -> None:
        """`kstorm kill --wait`. Raises `LocalError` if a pod is to run afterwards."""
        self.kstorm("kill", "--yes", "--wait", "60")
        label = f"app.kubernetes.io/instance={NAME},kstorm.io/topology"
        for found in self.kube.items("deployments,statefulsets", "-l", label):
            if found["spec"]["replicas"]:
                raise LocalError(f"{found['metadata']['name']} has {found['spec']['replicas']} replicas, and is killed")

    # What feeds and audits it.

    def feed(self, rate: float) -> None:
        """Begins to post so many sentences a second."""
        text = "\n".join(in_checkout(name).read_text() for name in _TEXTS)
        command = ["python3", "/inside/feed.py", self._broker, SOURCE, SINK, str(rate)]
        self.kube.run_pod("feed", self._image, command, {"feed.py": _script("feed.py"), "text.txt": text})
        self.kube.kubectl("wait", "--for=condition=Ready", "pod/feed", "--timeout=60s")
        until(self.samples, 60, "the first word of the feeding pod")

    def samples(self) -> list[Sample]:
        """What the feeding pod saw until now."""
        lines = self.kube.kubectl("logs", "feed").splitlines()
        seen = (json.loads(line) for line in lines if line.startswith('{"at"'))
        return [Sample(one["at"], one["taken"], one["sink"]) for one in seen]

    def stop_feeding(self) -> int:
        """Ends the feed; how many messages Kafka has taken."""
        self.kube.kubectl("exec", "feed", "--", "touch", "/tmp/stop")
        self.kube.await_end("feed", 120)
        return self.samples()[-1].taken

    def audit(self) -> dict[str, Any]:
        """Compares sink with source; see `inside/audit.py` for what it tells."""
        command = ["python3", "/inside/audit.py", self._broker, SOURCE, SINK, str(_PATIENCE_SECS)]
        self.kube.run_pod("audit", self._image, command, {"audit.py": _script("audit.py")})
        printed = self.kube.await_end("audit", 300)
        outcome: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return outcome

    def audit_tables(self, truth: dict[str, int]) -> Counted | None:
        """Compares the pipeline's counts with how often each word is in the messages; None without a pipeline."""
        return self.pipeline.audit(f"kstorm-pipeline:{self.tag}", truth) if self._has_pipeline else None

    def account(self) -> Audited | None:
        """What the chart's audit says of every message; None without a pipeline."""
        return self.pipeline.account() if self._has_pipeline else None

    @property
    def _image(self) -> str:
        return f"kstorm-spout:{self.tag}"

    @property
    def _broker(self) -> str:
        return f"{NAME}-kafka:9092"

    def _values(self) -> list[str]:
        files = [self._generated, _VALUES] + ([PIPELINE_VALUES] if self._has_pipeline else [])
        files.append(self._more)
        tags = [f"image.tag={self.tag}", *(f"images.{role}.tag={self._services_tag}" for role in SERVICES)]
        chosen = [*(("-f", str(file)) for file in files), *(("--set-string", tag) for tag in tags)]
        return [*(part for pair in chosen for part in pair), "--wait", "--timeout", "6m"]


def values_of(topology: str) -> str:
    """What `kstorm values TOPOLOGY --files` prints."""
    return run([sys.executable, "-m", "kstorm.cli", "values", topology, "--files"])


def _script(name: str) -> str:
    return (Path(__file__).parent / "inside" / name).read_text()

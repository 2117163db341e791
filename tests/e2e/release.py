"""The release under test: a topology with its own Kafka and ZooKeeper, fed and audited by pods."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kstorm.dev.pipeline_audit import AuditedTable
from kstorm.errors import LocalError
from tests.e2e.inside.findings import Findings
from tests.e2e.kube import Kube, in_checkout, inside, run, until
from tests.e2e.pipeline import Counted, Pipeline
from tests.e2e.release_values import ReleaseValues
from tests.e2e.trial import Trial
from tools.images.__main__ import SERVICES

ACKER: Final = "acker"
_CHART: Final = in_checkout("helm/kstorm")
_PATIENCE_SECS: Final = 60
_STATUS: Final = "import json, urllib.request; print(json.load(urllib.request.urlopen('http://127.0.0.1:6066/status'))['pending'])"


@dataclass(frozen=True, slots=True)
class Sample:
    """A measurement of the feeding pod."""

    at: float
    """Seconds since 1970, by the pod's clock."""
    taken: int
    """Messages that Kafka had taken."""
    sink: int
    """Records in the sink."""


class Release:
    """Installs, changes and removes the release. `more` are values that override the trial's."""

    def __init__(
        self,
        kube: Kube,
        trial: Trial,
        tag: str,
        workdir: Path,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self.kube, self.trial, self.tag, self._services_tag = kube, trial, tag, tag
        self.pipeline, self._has_pipeline = Pipeline(kube, trial.name, trial.tables), False
        self._values = ReleaseValues(trial, workdir, more or {})

    def install(self) -> None:
        """`helm install --wait`, into a namespace that enforces the restricted profile."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        name = self.kube.namespace
        self.kube.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        )
        self.kube.helm("install", self.trial.name, str(_CHART), *self._chosen())

    def upgrade(self, tag: str) -> None:
        """`helm upgrade --wait` to the services' images with another tag."""
        self._services_tag = tag
        self.kube.helm("upgrade", self.trial.name, str(_CHART), *self._chosen())

    def roll_back(self) -> None:
        """`helm rollback --wait` to the previous revision, whose services have the first tag."""
        self._services_tag = self.tag
        self.kube.helm("rollback", self.trial.name, "--wait", "--timeout", "6m")

    def set_value(self, name: str, value: object) -> None:
        """`helm upgrade --wait` with one changed value, such as `networkPolicy.metricsFrom`."""
        changed = ("--set-json", f"{name}={json.dumps(value)}")
        self.kube.helm("upgrade", self.trial.name, str(_CHART), *self._chosen(), *changed)

    def add_pipeline(self) -> None:
        """`helm upgrade --wait` that adds the pipeline, and wait for its first batch.

        The pipeline reads the whole sink.
        """
        self._has_pipeline = True
        self.upgrade(self._services_tag)
        self.pipeline.await_batch()

    def test(self) -> None:
        self.kube.helm("test", self.trial.name, "--timeout", "3m")

    def uninstall(self) -> list[str]:
        """`helm uninstall --wait`. Return the objects that it left, except volume claims."""
        self.kube.helm("uninstall", self.trial.name, "--wait", "--timeout", "3m")
        kinds = "all,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,jobs"
        mine = ("-l", f"app.kubernetes.io/instance={self.trial.name}")
        until(lambda: not self.kube.items("pods", *mine), 120, "the end of the release's pods")
        return [
            f"{item['kind']}/{item['metadata']['name']}" for item in self.kube.items(kinds, *mine)
        ]

    def workload(self, component: str) -> str:
        """Return the Deployment or StatefulSet of a component, in kubectl's notation."""
        label = f"app.kubernetes.io/instance={self.trial.name},kstorm.io/component={component}"
        (found,) = self.kube.items("deployments,statefulsets", "-l", label)
        return f"{found['kind'].lower()}/{found['metadata']['name']}"

    def workloads(self) -> list[str]:
        return [
            self.workload(component) for component in (self.trial.spout, *self.trial.bolts, ACKER)
        ]

    def server(self, name: str) -> str:
        """Return the StatefulSet of the release's own Kafka or ZooKeeper."""
        return f"statefulset/{self.trial.name}-{name}"

    def pods(self, component: str) -> list[str]:
        """Return the names of a component's pods that are not being deleted."""
        label = f"app.kubernetes.io/instance={self.trial.name},kstorm.io/component={component}"
        found = (pod["metadata"] for pod in self.kube.items("pods", "-l", label))
        return [pod["name"] for pod in found if "deletionTimestamp" not in pod]

    def container_starts(self) -> dict[str, int]:
        """Return how often the container of each pod was restarted."""
        label = f"app.kubernetes.io/instance={self.trial.name},kstorm.io/component"
        return {
            pod["metadata"]["name"]: sum(
                each["restartCount"] for each in pod["status"]["containerStatuses"]
            )
            for pod in self.kube.items("pods", "-l", label)
        }

    def held(self, component: str) -> int:
        """Return the number of tuples that a bolt's pods have executed but not acked or failed."""
        return sum(
            int(self.kube.kubectl("exec", pod, "--", "python3", "-c", _STATUS))
            for pod in self.pods(component)
        )

    def await_ready(self) -> None:
        """Wait until every component is up to date and ready."""
        for workload in self.workloads():
            self.kube.roll_out(workload)

    # Operator's commands.

    def kstorm(self, verb: str, *arguments: str) -> str:
        """`kstorm VERB TOPOLOGY …` from this machine, which has no access to the ZooKeeper."""
        command = [sys.executable, "-m", "kstorm.cli", verb, self.trial.name, *arguments]
        return run([*command, "--namespace", self.kube.namespace], timeout=300)

    def offsets(self) -> str:
        """`kstorm offsets show`, also from this machine."""
        command = [
            sys.executable,
            "-m",
            "kstorm.cli",
            "offsets",
            "show",
            "--topology",
            self.trial.name,
        ]
        return run([*command, "--namespace", self.kube.namespace], timeout=120)

    def kill(self) -> None:
        """`kstorm kill --wait`. Raises `LocalError` if a workload still has replicas afterwards."""
        self.kstorm("kill", "--yes", "--wait", "60")
        label = f"app.kubernetes.io/instance={self.trial.name},kstorm.io/topology"
        for found in self.kube.items("deployments,statefulsets", "-l", label):
            if found["spec"]["replicas"]:
                raise LocalError(
                    f"{found['metadata']['name']} has {found['spec']['replicas']} replicas, and is killed"
                )

    # Feed and audit.

    def feed(self, rate: float) -> None:
        """Start to post messages at this rate per second."""
        trial = self.trial
        command = [
            "python3",
            "-m",
            "tests.e2e.inside.feed",
            self._broker,
            trial.source,
            trial.sink,
            str(rate),
        ]
        files = {**inside("feed"), "lines.txt": "\n".join(trial.lines())}
        self.kube.run_pod("feed", self._image, [*command, "/inside/lines.txt", "/tmp/stop"], files)
        self.kube.kubectl("wait", "--for=condition=Ready", "pod/feed", "--timeout=60s")
        until(self.samples, 60, "the first word of the feeding pod")

    def samples(self) -> list[Sample]:
        """Return the feeding pod's measurements so far."""
        lines = self.kube.kubectl("logs", "feed").splitlines()
        seen = (json.loads(line) for line in lines if line.startswith('{"at"'))
        return [Sample(one["at"], one["taken"], one["sink"]) for one in seen]

    def stop_feeding(self) -> int:
        """Stop the feed, and return the number of messages that Kafka has taken."""
        self.kube.kubectl("exec", "feed", "--", "touch", "/tmp/stop")
        self.kube.await_end("feed", 120)
        return self.samples()[-1].taken

    def audit(self) -> Findings:
        """Compare sink and dead letters with the source: see `inside`."""
        trial = self.trial
        command = [
            "python3",
            "-m",
            f"tests.e2e.inside.{trial.audit}",
            self._broker,
            trial.source,
            trial.sink,
        ]
        files = inside("findings", "tally", "audit", trial.audit)
        self.kube.run_pod(
            "audit", self._image, [*command, trial.dead_letters, str(_PATIENCE_SECS)], files
        )
        return Findings.from_json(self.kube.await_end("audit", 300).splitlines()[-1])

    def audit_tables(self, truth: dict[str, int]) -> Counted | None:
        """Compare the pipeline's numbers with those of the messages. None without a pipeline."""
        return (
            self.pipeline.audit(f"kstorm-pipeline:{self.tag}", truth)
            if self._has_pipeline
            else None
        )

    def account(self) -> AuditedTable | None:
        """Return the result of the chart's audit. None without a pipeline."""
        return self.pipeline.account() if self._has_pipeline else None

    @property
    def _image(self) -> str:
        return f"kstorm-spout:{self.tag}"

    @property
    def _broker(self) -> str:
        return f"{self.trial.name}-kafka:9092"

    def _chosen(self) -> list[str]:
        tags = [
            f"image.tag={self.tag}",
            *(f"images.{role}.tag={self._services_tag}" for role in SERVICES),
        ]
        chosen = [part for tag in tags for part in ("--set-string", tag)]
        return [*self._values.options(self._has_pipeline), *chosen, "--wait", "--timeout", "6m"]

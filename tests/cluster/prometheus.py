"""A Prometheus that finds and scrapes a release's pods through its PodMonitors, and evaluates its
rules."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from kstorm.dev.free_ports import reserve_port
from kstorm.dev.processes import ManagedProcess
from tests.e2e.kube import Kube
from tests.go_program import go_program
from tests.go_server import GoServer

VERSION: Final = "v0.316.0"
EVERY: Final = "5s"
"""Interval of scrapes and evaluations."""


class Prometheus(GoServer):
    """A process on this machine that can reach the cluster's pods, as a context manager."""

    def __init__(self, kube: Kube, workdir: Path) -> None:
        self._address = f"127.0.0.1:{reserve_port()}"
        rules, monitors = kube.items("prometheusrules"), kube.items("podmonitors")
        groups = [group for rule in rules for group in rule["spec"]["groups"]]
        (workdir / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
        jobs = [
            _job(monitor, endpoint)
            for monitor in monitors
            for endpoint in monitor["spec"]["podMetricsEndpoints"]
        ]
        config = {
            "global": {"scrape_interval": EVERY, "evaluation_interval": EVERY},
            "rule_files": ["rules.yml"],
            "scrape_configs": jobs,
        }
        (workdir / "prometheus.yml").write_text(yaml.safe_dump(config))
        program = go_program("github.com/prometheus/prometheus/cmd/prometheus", VERSION)
        flags = {
            "config.file": workdir / "prometheus.yml",
            "storage.tsdb.path": workdir / "data",
            "web.listen-address": self._address,
        }
        command: list[str | Path] = [
            program,
            *(f"--{name}={value}" for name, value in flags.items()),
        ]
        super().__init__(
            ManagedProcess("prometheus", command, workdir=workdir),
            f"http://{self._address}/-/ready",
        )

    def samples(self, expression: str) -> list[tuple[Mapping[str, str], float]]:
        """Evaluate an expression, and return labels and value of each series."""
        found = self._ask("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def rules(self) -> list[dict[str, Any]]:
        """Return the rules with their `health` and `lastError`."""
        return [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]

    def firing(self) -> set[tuple[str, str]]:
        """Return the firing alerts, each with its summary."""
        alerts = self._ask("alerts")["alerts"]
        return {
            (each["labels"]["alertname"], each["annotations"]["summary"])
            for each in alerts
            if each["state"] == "firing"
        }

    def targets(self) -> dict[str, str]:
        """Return the result of the last scrape by pod: `up`, or the error."""
        found = self._ask("targets", state="active")["activeTargets"]
        return {each["labels"]["pod"]: each["lastError"] or each["health"] for each in found}

    def _ask(self, what: str, **parameters: str) -> dict[str, Any]:
        with urlopen(
            f"http://{self._address}/api/v1/{what}?{urlencode(parameters)}", timeout=10
        ) as answer:
            found: dict[str, Any] = json.load(answer)["data"]
        return found


def _job(monitor: Mapping[str, Any], endpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a PodMonitor as the Prometheus operator does."""
    place = monitor["metadata"]

    def keep(label: str, value: str) -> dict[str, Any]:
        return {
            "source_labels": [f"__meta_kubernetes_pod_{label}"],
            "regex": re.escape(value),
            "action": "keep",
        }

    def named(label: str, source: str) -> dict[str, Any]:
        return {"source_labels": [f"__meta_kubernetes_{source}"], "target_label": label}

    chosen = monitor["spec"]["selector"]["matchLabels"].items()
    return {
        "job_name": f"{place['namespace']}/{place['name']}",
        "metrics_path": endpoint["path"],
        "kubernetes_sd_configs": [
            {
                "role": "pod",
                "kubeconfig_file": os.environ["KUBECONFIG"],
                "namespaces": {"names": [place["namespace"]]},
            }
        ],
        "relabel_configs": [
            *(keep(f"label_{re.sub('[^a-zA-Z0-9_]', '_', name)}", value) for name, value in chosen),
            keep("container_port_name", endpoint["port"]),
            named("namespace", "namespace"),
            named("pod", "pod_name"),
            named("container", "pod_container_name"),
        ],
    }

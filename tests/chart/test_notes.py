"""Helm's notes after an install name the objects of the release, with commands that can be pasted."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.chart.conftest import CHART, KUBERNETES, Render

Notes = Callable[..., str]


@pytest.fixture
def notes(helm: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> Notes:
    """Render the notes with one of the CI files.

    Helm shows notes only of an installed release, so here they are a template.
    """
    copy = tmp_path / "kstorm"
    shutil.copytree(CHART, copy)
    text = (copy / "templates" / "NOTES.txt").read_text()
    made = (
        f'{{{{ define "notes" }}}}{text}{{{{ end }}}}notes: {{{{ include "notes" . | toJson }}}}\n'
    )
    (copy / "templates" / "notes.yaml").write_text(made)

    def rendered(base: str, *more: str) -> str:
        values = str(CHART / "ci" / f"{base}-values.yaml")
        how = (
            "--namespace",
            "words",
            "--kube-version",
            KUBERNETES,
            "--show-only",
            "templates/notes.yaml",
        )
        sets = [word for each in more for word in ("--set", each)]
        done = helm("template", "wordcount", str(copy), "-f", values, *sets, *how)
        assert done.returncode == 0, done.stderr
        return str(yaml.safe_load(done.stdout)["notes"])

    return rendered


@pytest.mark.parametrize("base", ["minimal", "prod", "keda", "dev"])
def test_notes_explain_how_to_scale_each_workload(notes: Notes, render: Render, base: str) -> None:
    """They give the command with the number of tasks, or state that the workload scales
    automatically. A single task cannot be shared."""
    wanted = {}
    for each in render(base=base):
        if "kstorm.io/tasks" in each["metadata"].get("annotations", {}):
            name = f"{each['kind'].lower()}/{each['metadata']['name']}"
            wanted[name] = (
                int(each["metadata"]["annotations"]["kstorm.io/tasks"]),
                "replicas" in each["spec"],
            )
    text = notes(base)
    by_hand = dict(re.findall(r"kubectl -n words scale (\S+) --replicas=N    # 1 to (\d+)", text))
    by_itself = dict(re.findall(r"(\S+) is scaled automatically, up to (\d+)", text))
    assert by_hand == {
        name: str(tasks) for name, (tasks, fixed) in wanted.items() if fixed and tasks > 1
    }
    assert by_itself == {
        name.partition("/")[2]: str(tasks) for name, (tasks, fixed) in wanted.items() if not fixed
    }


def test_notes_explain_produce_watch_and_remove(notes: Notes) -> None:
    """The commands run in the spout's pod, which has `kstorm` and Kafka's address.

    `produce` needs a test message.
    """
    text = notes("dev")
    for command in (
        "kubectl -n words get pods -l app.kubernetes.io/instance=wordcount",
        "kstorm topology status hello --namespace words",
        "helm test wordcount -n words",
        "| kubectl -n words exec -i wordcount-lines-0 -- kstorm produce lines\n",
        "kubectl -n words exec wordcount-lines-0 -- kstorm consume words --tail 5\n",
        "helm uninstall wordcount -n words",
        "kubectl -n words logs job/wordcount-prepare\n",
        "kubectl -n words delete pvc,job,configmap -l app.kubernetes.io/instance=wordcount\n",
    ):
        assert command in text
    assert "    echo 'hello' | kubectl" in text
    assert "    echo 'MESSAGE' | kubectl" in notes("prod")
    assert "kstorm produce" not in notes("minimal")
    assert "wordcount-traces" not in notes("minimal")
    assert "kubectl -n words logs deployment/wordcount-traces " in notes("prod")
    assert "Its topics (wordcount.*) and its offsets in ZooKeeper stay" in notes("prod")


def test_notes_explain_state_queries(notes: Notes) -> None:
    """They list each stateful bolt and the Secret with the token, if state queries are enabled."""
    text = notes("dev", "stateQueries.enabled=true", "stateQueries.existingSecret.name=ask")
    said = "    kstorm state scan hello count --namespace words    # set KSTORM_STATE_TOKEN to the token of the Secret ask\n"
    assert text.count("kstorm state scan") == text.count(said) == 1
    assert "kstorm state" not in notes("dev")


def test_helm_test_is_described(notes: Notes) -> None:
    """It sends a message only if there is one."""
    sends = "helm test wordcount -n words    # sends test.message to lines and waits for its result in words\n"
    checks = "# checks that the topics exist and every task has a process; sends nothing\n"
    assert sends in notes("dev")
    assert checks in notes("minimal")
    assert checks in notes("prod")


def test_notes_warn_of_a_prometheus_without_access(notes: Notes) -> None:
    """Otherwise it would scrape nothing, without an error."""
    line = "Only this namespace may read the metrics. Name a Prometheus in another namespace in networkPolicy.metricsFrom."
    scraped = "monitoring.podMonitor.enabled=true"
    assert line in notes("minimal", scraped)
    assert line not in notes("minimal")
    assert line not in notes("minimal", scraped, "networkPolicy.enabled=false")
    assert line not in notes("prod")


def test_notes_name_a_spout_without_pods(notes: Notes) -> None:
    assert "has no pods" not in notes("dev")
    assert "lines has no pods, so it emits nothing." in notes("dev", "components.lines.replicas=0")

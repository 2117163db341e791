"""A cluster that commands know only by its kubeconfig.

Only its pods know the servers and the code.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.exec_stub import run_here
from tests.kubernetes_stub import KubernetesStub

_OF_PODS = ("KSTORM_ZOOKEEPER", "KSTORM_BOOTSTRAP_SERVERS", "KSTORM_TOPOLOGY")


@contextmanager
def from_kubeconfig(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    topology: str = "wordcount",
    components: Sequence[tuple[str, str]] = (
        ("sentences", "spout"),
        ("split", "bolt"),
        ("acker", "acker"),
    ),
    variables: Mapping[str, str] | None = None,
) -> Iterator[KubernetesStub]:
    """Serve a cluster with these components and kinds.

    With `variables`, a command in a pod really runs, with these variables.
    """
    with KubernetesStub() as stub:
        for component, kind in components:
            stub.add(component, kind, topology=topology)
        if variables is not None:
            stub.on_exec = run_here(variables, lambda length: stub.read_input(length))
        monkeypatch.setenv("KUBECONFIG", str(stub.write_kubeconfig(folder / "kubeconfig")))
        monkeypatch.setenv("KSTORM_OPERATOR", "anna@laptop")
        for variable in _OF_PODS:
            monkeypatch.delenv(variable, raising=False)
        yield stub


def given(cluster: KubernetesStub) -> list[tuple[str, str]]:
    """Return pod and command of each exec, without the name of the operator."""
    for _, command in cluster.commands:
        assert command[:3] == ["env", "KSTORM_OPERATOR=anna@laptop", "kstorm"]
    return [(pod, " ".join(command[3:])) for pod, command in cluster.commands]

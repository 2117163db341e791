"""kube-router's firewall.

It enforces NetworkPolicies on any pod network with iptables and ipset.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final, Self

from kstorm.dev.processes import ManagedProcess
from kstorm.errors import LocalError
from tests.e2e.kube import Kube
from tests.go_program import go_program

VERSION: Final = "v2.1.0"
_OURS: Final = re.compile(r"KUBE-(ROUTER|NWPLCY|POD-FW)-")


class Enforcer:
    """A process of this machine, the only node of the cluster. On exit all rules are removed."""

    def __init__(self, kube: Kube, workdir: Path) -> None:
        if os.geteuid() != 0 or shutil.which("ipset") is None:
            raise LocalError(
                "enforcing NetworkPolicies needs root and ipset: apt-get install ipset"
            )
        (node,) = kube.items("nodes")
        (service,) = kube.items(
            "services", "--namespace=default", "--field-selector=metadata.name=kubernetes"
        )
        flags = {
            "run-router": "false",
            "run-service-proxy": "false",
            "run-firewall": "true",
            "kubeconfig": os.environ["KUBECONFIG"],
            "hostname-override": node["metadata"]["name"],
            "service-cluster-ip-range": f"{service['spec']['clusterIP']}/16",
            "health-port": "0",
        }
        program = go_program("github.com/cloudnativelabs/kube-router/v2/cmd/kube-router", VERSION)
        command: list[str | Path] = [
            program,
            *(f"--{name}={value}" for name, value in flags.items()),
        ]
        self.process = ManagedProcess("kube-router", command, workdir=workdir)

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        rules = _said("iptables-save", "-t", "filter").splitlines()
        kept = [rule for rule in rules if not _OURS.search(rule)]
        subprocess.run(
            ["iptables-restore", "-w", "-T", "filter"],
            input="\n".join([*kept, ""]),
            text=True,
            check=True,
        )
        for name in _said("ipset", "list", "-name").split():
            if name.startswith(("KUBE-", "kube-router-", "inet6:")):
                _said("ipset", "destroy", name)


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

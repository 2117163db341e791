"""Releases on the cluster of KUBECONFIG, each in its own namespace."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.e2e.kube import Kube
from tests.e2e.release import Release
from tests.e2e.wordcount import WORDCOUNT
from tests.go_program import go_source

TAG = "e2e-1"
"""Tag of the images, which the cluster has."""

Install = Callable[..., AbstractContextManager[Release]]


@pytest.fixture(scope="session", autouse=True)
def cluster() -> None:
    """Fail at once without a cluster."""
    if "KUBECONFIG" not in os.environ:
        pytest.fail("KUBECONFIG names no cluster: see tests/cluster/__init__.py")


@pytest.fixture(scope="session")
def install(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Return a context manager that installs a word count with further values into a namespace, and
    removes both."""

    @contextmanager
    def installed(
        namespace: str,
        values: Mapping[str, Any],
        prepare: Callable[[Kube], object] = lambda kube: None,
    ) -> Iterator[Release]:
        kube, workdir = Kube(namespace), tmp_path_factory.mktemp(namespace)
        prepare(kube)
        try:
            release = Release(kube, WORDCOUNT, TAG, workdir, values)
            release.install()
            yield release
        finally:
            kube.kubectl(
                "delete", "namespace", namespace, "--ignore-not-found", "--wait", timeout=300
            )

    return installed


def define(kube: Kube, module: str, version: str, folder: str, *names: str) -> None:
    """Create the custom resource definitions in these files of a Go module's source."""
    for name in names:
        kube.kubectl(
            "apply",
            "--server-side",
            "--force-conflicts",
            "-f",
            str(go_source(module, version) / folder / name),
        )

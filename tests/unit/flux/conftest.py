"""Topologies that a test writes to files."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kstorm.flux import load_file
from kstorm.topology import Topology

Written = Callable[..., Topology]

WIRED = """
spouts:
  - id: words
    class: tests.unit.flux.storm:TestWordSpout
bolts:
  - id: log
    class: tests.unit.flux.storm:LogInfoBolt
streams:
  - from: words
    to: log
    grouping: {type: SHUFFLE}
"""
"""A spout and a bolt."""


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Provide a function that loads this text as `t.yaml`, with further files by name."""

    def load(
        text: str,
        properties: str | None = None,
        environment: Mapping[str, str] | None = None,
        **files: str,
    ) -> Topology:
        (tmp_path / "t.yaml").write_text(text)
        for name, content in files.items():
            (tmp_path / f"{name}.yaml").write_text(content)
        chosen = tmp_path / "t.properties"
        if properties is not None:
            chosen.write_text(properties)
        return load_file(
            tmp_path / "t.yaml",
            environment=environment or {},
            properties=None if properties is None else chosen,
        )

    return load

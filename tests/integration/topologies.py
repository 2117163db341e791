"""What the services of the integration tests load; the names of topics come from the environment of the test."""

import os

from examples import diamond as diamonds
from examples import wordcount as wordcounts
from kstorm.topology import Config, Topology


def _config() -> Config:
    return Config(topology_message_timeout_secs=float(os.environ.get("KSTORM_TEST_TIMEOUT", "30")))


def names(prefix: str) -> tuple[str, str, str]:
    """Topology, source topic and sink topic of one test."""
    return prefix, f"{prefix}-in", f"{prefix}-out"


def wordcount() -> Topology:
    """Word count of the test `KSTORM_TEST_PREFIX`."""
    return wordcounts.build(*names(os.environ["KSTORM_TEST_PREFIX"]), config=_config())


def diamond() -> Topology:
    """The diamond of the test `KSTORM_TEST_PREFIX`."""
    return diamonds.build(*names(os.environ["KSTORM_TEST_PREFIX"]), config=_config())

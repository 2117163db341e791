"""Fixtures for tests of bolts and topologies. pytest loads them wherever kstorm is installed.

* `local_cluster(topology, …)`: a `LocalCluster`, closed after the test
* `complete_topology(topology, tuples, …)`: runs a topology on fixed input
* `bolt_tester(bolt, *fields, …)`: a `BoltTester`, cleaned up after the test

Clusters take their seed from `--kstorm-seed N` (default 0, or `random`), and a failed test reports
its seed. `@pytest.mark.parametrize("kstorm_seed", range(20))` runs a test with 20 seeds. kstorm is
only imported when a test requests a fixture, so other tests have no overhead.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from kstorm.testing import BoltTester, LocalCluster
    from kstorm.testing.kafka import FakeKafka
    from kstorm.topology import BasicBolt, Bolt, Topology

_OPTION = "--kstorm-seed"
_SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the seed of clusters."""
    parser.getgroup("kstorm").addoption(
        _OPTION,
        type=number_or_random,
        default=0,
        metavar="N",
        help="seed of the clusters that the fixtures local_cluster and complete_topology create: a "
        "number, or 'random' (default 0)",
    )


def number_or_random(text: str) -> int:
    """Parse the value of the option.

    pytest's error for an invalid value shows this function's name.
    """
    return SystemRandom().getrandbits(32) if text == "random" else int(text)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report the seed of a failed test's clusters."""
    report = yield
    if report.failed and _SEED in item.stash:
        report.sections.append(
            ("kstorm", f"the seed of its clusters: {_OPTION} {item.stash[_SEED]}")
        )
    return report


@pytest.fixture
def kstorm_seed(request: pytest.FixtureRequest) -> int:
    """The seed of this test's clusters: `--kstorm-seed`."""
    seed: int = request.config.getoption(_OPTION)
    return seed


@pytest.fixture
def local_cluster(
    kstorm_seed: int, request: pytest.FixtureRequest
) -> Iterator[Callable[..., LocalCluster]]:
    """Create a `LocalCluster` of a topology, and close it after the test.

    Takes the arguments of `LocalCluster` except the seed. With a `FakeKafka` as `kafka=`, the
    cluster uses that Kafka.
    """
    from kstorm.testing import LocalCluster

    request.node.stash[_SEED] = kstorm_seed
    with ExitStack() as stack:

        def make(
            topology: Topology, kafka: FakeKafka | None = None, **arguments: Any
        ) -> LocalCluster:
            cluster = LocalCluster if kafka is None else kafka.cluster
            return stack.enter_context(cluster(topology, kstorm_seed, **arguments))

        yield make


@pytest.fixture
def complete_topology(
    kstorm_seed: int, request: pytest.FixtureRequest
) -> Callable[..., LocalCluster]:
    """`kstorm.testing.complete_topology` with this test's seed."""
    from kstorm.testing import complete_topology

    request.node.stash[_SEED] = kstorm_seed
    return partial(complete_topology, seed=kstorm_seed)


@pytest.fixture
def bolt_tester() -> Iterator[Callable[..., BoltTester[Any]]]:
    """Create a `BoltTester` of a bolt with the given arguments, and clean up after the test."""
    from kstorm.testing import BoltTester

    with ExitStack() as stack:

        def make(bolt: Bolt | BasicBolt, *fields: Any, **arguments: Any) -> BoltTester[Any]:
            tester = BoltTester(bolt, *fields, **arguments)
            stack.callback(tester.close)
            return tester

        yield make

"""The pytest plugin, tested with pytest's own tests."""

import subprocess
import sys

import pytest

import kstorm.testing  # noqa: F401 - here, since numpy cannot be loaded again by each of the tests within

pytest_plugins = ["pytester"]

QUIET = [f"-p{name}" for name in ("no:cacheprovider", "no:asyncio", "no:hypothesispytest")]

TOPOLOGY = """
from kstorm.testing import FeederSpout
from kstorm.topology import BasicBolt, TopologyBuilder

cleaned = []

class Split(BasicBolt):
    def declare_output_fields(self, declarer):
        declarer.declare("word")

    def execute(self, tuple, collector):
        for word in tuple["sentence"].split():
            collector.emit([word])

    def cleanup(self):
        cleaned.append(True)

feeder = FeederSpout("sentence")
builder = TopologyBuilder("t")
builder.set_spout("sentences", feeder)
builder.set_bolt("split", Split(), 2).shuffle_grouping("sentences")
topology = builder.build()
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*QUIET, *options)


def test_fixtures(pytester: pytest.Pytester) -> None:
    """Each fixture returns its documented object, and cleans up after the test."""
    pytester.makepyfile(
        wired=TOPOLOGY,
        test_it="""
        from wired import Split, cleaned, feeder, topology

        def test_cluster(local_cluster):
            cluster = local_cluster(topology, resources={"a": 1})
            feeder.feed(["a b"], 1)
            cluster.run_until_idle()
            assert cluster.acked("sentences") == [1]
            assert cleaned == []

        def test_cluster_was_closed():
            assert cleaned == [True, True]
            cleaned.clear()

        def test_bolt(bolt_tester):
            split = bolt_tester(Split(), "sentence")
            split.give(["a b"])
            assert split.emitted() == [["a"], ["b"]]
            assert cleaned == []

        def test_bolt_was_cleaned_up():
            assert cleaned == [True]

        def test_complete(complete_topology):
            assert complete_topology(topology, {"sentences": [["a"]]}).acked("sentences") == [0]
        """,
    )
    run(pytester).assert_outcomes(passed=5)


def test_failing_test_prints_its_seed(pytester: pytest.Pytester) -> None:
    """Only a test with a cluster prints it. The option sets the seed, also of parametrized tests."""
    pytester.makepyfile(
        wired=TOPOLOGY,
        test_it="""
        import pytest
        from wired import topology

        def test_cluster(local_cluster):
            local_cluster(topology)
            assert False

        @pytest.mark.parametrize("kstorm_seed", [77])
        def test_complete(complete_topology):
            complete_topology(topology, {"sentences": []})
            assert False

        def test_other():
            assert False

        def test_fine(local_cluster, kstorm_seed):
            assert kstorm_seed == 4711
        """,
    )
    result = run(pytester, "--kstorm-seed", "4711")
    result.assert_outcomes(failed=3, passed=1)
    said = [line for line in result.outlines if "the seed of its clusters" in line]
    assert said == [
        "the seed of its clusters: --kstorm-seed 4711",
        "the seed of its clusters: --kstorm-seed 77",
    ]


def test_the_seed_is_the_clusters(pytester: pytest.Pytester) -> None:
    """The seed is 0, given or random, and the clusters of the fixtures use it."""
    pytester.makepyfile(
        wired=TOPOLOGY,
        test_it="""
        import kstorm.testing
        from kstorm.testing import LocalCluster
        from wired import feeder, topology

        def told(cluster):
            feeder.feed(["a b"], 1)
            cluster.run_until_idle()
            return cluster.sent("t.__acker")  # has ids, which are drawn from the seed

        def test_local_cluster(local_cluster, kstorm_seed):
            print("seed", kstorm_seed)
            assert told(local_cluster(topology)) == told(LocalCluster(topology, kstorm_seed))
            assert told(local_cluster(topology)) != told(LocalCluster(topology, kstorm_seed + 1))

        def test_complete_topology(complete_topology, kstorm_seed):
            def sent(complete, **seed):
                return complete(topology, {"sentences": [["a b"]]}, **seed).sent("t.__acker")

            assert sent(complete_topology) == sent(kstorm.testing.complete_topology, seed=kstorm_seed)
            assert sent(complete_topology) != sent(kstorm.testing.complete_topology, seed=kstorm_seed + 1)
        """,
    )

    def seed(*options: str) -> str:
        result = run(pytester, "-s", *options)
        result.assert_outcomes(passed=2)
        return next(line.split()[-1] for line in result.outlines if "seed" in line.split())

    assert (seed(), seed("--kstorm-seed", "12")) == ("0", "12")
    assert seed("--kstorm-seed", "random") != seed("--kstorm-seed", "random")


def test_invalid_seed_is_refused(pytester: pytest.Pytester) -> None:
    """The error names the seed."""
    result = run(pytester, "--kstorm-seed", "x")
    result.stderr.fnmatch_lines(["*argument --kstorm-seed: invalid number_or_random value: 'x'"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_other_tests_pay_nothing(pytester: pytest.Pytester) -> None:
    """Pytest loads the plugin by its entry point. The plugin then loads nothing else of kstorm."""
    pytester.makepyfile("""
        import sys

        def test_other(pytestconfig):
            assert pytestconfig.pluginmanager.get_plugin("kstorm").__name__ == "kstorm.pytest_plugin"
            loaded = {name for name in sys.modules if name.split(".")[0] in ("kstorm", "numpy", "msgspec", "hypothesis")}
            print("loaded", sorted(loaded))
        """)
    command = [sys.executable, "-m", "pytest", "-s", *QUIET]
    ran = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, check=True)
    assert "loaded ['kstorm', 'kstorm.pytest_plugin']" in ran.stdout

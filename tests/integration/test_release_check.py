"""Two releases of one topology would take each other's tasks.

`kstorm prepare` rejects the other release until the first is gone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import InUseError
from kstorm.kafka import KafkaBolt
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.release_check import check_single_release
from kstorm.topology import OutputFieldsDeclarer, Spout, Topology, TopologyBuilder
from tests.integration.engine import make_topics
from tests.integration.test_consumer import Owner, member
from tests.kstorm_command import run_kstorm


class Numbers(Spout):
    """Emits nothing."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("message")

    def next_tuple(self) -> None:
        """Do nothing."""


def build(name: str) -> Topology:
    """Return a topology of a spout and a bolt."""
    builder = TopologyBuilder(name)
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("sink", KafkaBolt()).shuffle_grouping("numbers")
    return builder.build()


@asynccontextmanager
async def running(kafka: EmbeddedKafka, group: str, release: str) -> AsyncIterator[None]:
    """Run a process of a release on the task of a component."""
    owner = Owner()
    consumer = member(
        kafka.bootstrap, group, owner, instance="wc-0", release=release, leave_on_stop=True
    )
    try:
        async with asyncio.timeout(60):
            await owner.ready.wait()
        yield
    finally:
        await asyncio.to_thread(consumer.stop)


@pytest.mark.parametrize("component", ["numbers", "sink", "__acker"])
async def test_second_release_is_refused_while_the_first_runs(
    kafka: EmbeddedKafka, topic_prefix: str, component: str
) -> None:
    """This holds for each component.

    The same release can be upgraded, and a stopped one does not count.
    """
    topology, group = build(topic_prefix), f"{topic_prefix}.{component}"
    make_topics(kafka.bootstrap, {group: 1})

    async def check(release: str) -> None:
        settings = Settings(topology="a:b", bootstrap_servers=kafka.bootstrap, release=release)
        await asyncio.to_thread(check_single_release, topology, settings)

    async with running(kafka, group, "tests/wc"):
        await check("tests/wc")
        await check("")
        with pytest.raises(InUseError) as refused:
            await check("words/wc")
    whose = f"already runs as the release tests/wc (wc-0 is in the group '{group}'), and words/wc would take its tasks"
    assert whose in str(refused.value)
    await check("words/wc")


@pytest.mark.slow
async def test_process_without_a_release_blocks_nothing(
    kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """An example is a pod of an older chart."""
    make_topics(kafka.bootstrap, {f"{topic_prefix}.sink": 1})
    settings = Settings(topology="a:b", bootstrap_servers=kafka.bootstrap, release="words/wc")
    async with running(kafka, f"{topic_prefix}.sink", ""):
        await asyncio.to_thread(check_single_release, build(topic_prefix), settings)


@pytest.mark.slow
async def test_prepare_refuses_before_it_creates_anything(
    kafka: EmbeddedKafka,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It has exit code 2 after a wait for the end of the first release."""
    module = f"released_{topic_prefix.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(
        f"from tests.integration.test_release_check import build\ntopology = build({topic_prefix!r})\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", kafka.bootstrap)
    monkeypatch.setenv("KSTORM_TOPOLOGY", f"{module}:topology")
    monkeypatch.setenv("KSTORM_RELEASE", "words/wc")
    make_topics(kafka.bootstrap, {f"{topic_prefix}.sink": 1})

    def prepare() -> tuple[object, str, str]:
        return run_kstorm(capsys, "prepare", "--wait", "0.5")

    async with running(kafka, f"{topic_prefix}.sink", "tests/wc"):
        code, told, complaint = await asyncio.to_thread(prepare)
    assert code == 2
    assert "created" not in told
    assert "still waiting: the topology" in told
    assert "already runs as the release tests/wc" in complaint
    assert (await asyncio.to_thread(prepare))[0] == 0

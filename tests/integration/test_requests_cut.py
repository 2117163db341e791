"""Exactly once despite the failure of single requests: lost, executed without an answer, answered
late, and a broker killed during a transaction."""

import asyncio
import uuid
from collections.abc import Iterator

import pytest

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.runtime.kafka import group_member
from tests.chaos.request_proxy import Api, RequestFate, RequestFault, RequestProxy
from tests.integration.engine import make_topics, running
from tests.integration.test_consumer import Owner, member
from tests.integration.test_exactly_once import EXACTLY_ONCE
from tests.integration.words import Words

TRANSACTION = (
    Api.ADD_PARTITIONS_TO_TXN,
    Api.PRODUCE,
    Api.ADD_OFFSETS_TO_TXN,
    Api.TXN_OFFSET_COMMIT,
    Api.END_TXN,
)
BEGINNING = (Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID)
JOINING = (Api.FIND_COORDINATOR, Api.JOIN_GROUP, Api.SYNC_GROUP, Api.OFFSET_FETCH)
AMID = (
    (Api.TXN_OFFSET_COMMIT, RequestFate.LOST),
    (Api.END_TXN, RequestFate.LOST),
    (Api.END_TXN, RequestFate.UNANSWERED),
)
PATIENCE_SECS = 3
"""The timeout of these clients. librdkafka's default is a minute."""
SETTINGS = {
    **EXACTLY_ONCE,
    "KSTORM_KAFKA_PROPERTIES": f'{{"socket.timeout.ms": "{PATIENCE_SECS * 1000}"}}',
}


@pytest.fixture(scope="module")
def detour(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[EmbeddedKafka, RequestProxy]]:
    directory = tmp_path_factory.mktemp("detour")
    with (
        RequestProxy() as proxy,
        EmbeddedKafka(directory, quick_start=True, detours={"WAY": proxy.address}) as kafka,
    ):
        proxy.target = kafka.listener_port("WAY")
        yield kafka, proxy


@pytest.fixture(scope="module")
def kafka(detour: tuple[EmbeddedKafka, RequestProxy]) -> EmbeddedKafka:
    return detour[0]


@pytest.fixture(scope="module")
def proxy(detour: tuple[EmbeddedKafka, RequestProxy]) -> RequestProxy:
    return detour[1]


@pytest.fixture(scope="module")
def words(
    kafka: EmbeddedKafka,
    proxy: RequestProxy,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Words]:
    """One word count for all of these tests, because its start takes as long as all faults of a
    test."""
    with (
        pytest.MonkeyPatch.context() as environment,
        running(
            "wordcount",
            f"cut-{uuid.uuid4().hex[:8]}",
            kafka,
            zookeeper,
            tmp_path_factory.mktemp("processes"),
            environment,
            bootstrap=proxy.address,
            settings=SETTINGS,
        ) as engine,
    ):
        yield Words(engine)


def starts(words: Words) -> dict[str, int]:
    return {worker.name: worker.process.starts for worker in words.engine.processes.workers}


def await_struck(words: Words, *strikes: RequestFault) -> None:
    """Wait until all faults have happened, and then until all work is done.

    The feed continues until then, because an acker without open trees at a checkpoint needs no
    transaction.
    """
    with words.fed():
        words.engine.until(lambda: all(strike.done for strike in strikes), 60, strikes)
    words.await_done()


@pytest.mark.long
@pytest.mark.parametrize(
    "fate",
    [
        RequestFate.LOST,
        RequestFate.UNANSWERED,
        pytest.param(RequestFate.LATE, marks=pytest.mark.long),
    ],
)
def test_failed_requests_of_transactions(
    words: Words, proxy: RequestProxy, fate: RequestFate
) -> None:
    """Each process loses one request of each kind. No process ends."""
    before = starts(words)
    for api in TRANSACTION:
        strike = proxy.strike(
            api, fate, *(f"{name}-checkpoints" for name in before), late_secs=PATIENCE_SECS + 1
        )
        await_struck(words, strike)
        assert starts(words) == before, strike
    words.check()


@pytest.mark.long
@pytest.mark.parametrize("fate", [RequestFate.LOST, RequestFate.UNANSWERED])
def test_failed_requests_of_a_starting_process(
    words: Words, proxy: RequestProxy, fate: RequestFate
) -> None:
    """These are all requests for joining the group and opening the producer."""
    strikes = [proxy.strike(api, fate, "count-0") for api in JOINING]
    strikes += [proxy.strike(api, fate, "count-0-checkpoints") for api in BEGINNING]
    words.engine.worker("count-0").process.kill()
    await_struck(words, *strikes)
    words.check()


@pytest.mark.long
@pytest.mark.parametrize(("api", "fate"), AMID)
def test_broker_killed_during_a_transaction(
    words: Words, kafka: EmbeddedKafka, proxy: RequestProxy, api: Api, fate: RequestFate
) -> None:
    """It dies between records and offsets, between offsets and commit, or between commit and
    answer."""
    strike = proxy.strike(api, fate, "count-0-checkpoints", then=kafka.kill)
    with words.fed():
        words.engine.until(lambda: strike.done, 60, strike)
        kafka.start()
    words.await_done()
    words.check()


@pytest.mark.slow
async def test_unanswered_join_request_is_repeated(
    kafka: EmbeddedKafka, proxy: RequestProxy, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed broker never answers it. By default librdkafka would wait for minutes."""
    monkeypatch.setattr(group_member, "_POLL_MARGIN_SECONDS", 1.0)
    make_topics(kafka.bootstrap, {topic_prefix: 1})
    strike = proxy.strike(Api.JOIN_GROUP, RequestFate.SWALLOWED, "count-0")
    owner = Owner()
    asking = member(proxy.address, topic_prefix, owner)
    try:
        async with asyncio.timeout(60):
            await owner.ready.wait()
        assert strike.done
        assert not owner.fault.done()
    finally:
        await asyncio.to_thread(asking.stop)

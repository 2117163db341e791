"""Counts of a stream in a real PostgreSQL and a real Redis stay exact if processes are killed
during commits."""

from collections import Counter
from functools import partial

import pytest

from kstorm.errors import ConfigError, FencedError
from kstorm.trident import RedisMap
from tests.integration.conftest import RunTopology
from tests.integration.databases import backing, redis_client, stored
from tests.integration.engine import Engine
from tests.integration.postgres_server import PostgresServer
from tests.integration.redis_server import RedisServer

SHARE = 300
WORDS = ("one", "two", "three", "four", "five", "six", "seven")
Server = type[PostgresServer] | type[RedisServer]


def sentences(number: int) -> list[str]:
    """Return some text."""
    return [f"the {WORDS[(number + each) % 7]} {WORDS[each % 5]}" for each in range(SHARE)]


@pytest.mark.parametrize(
    ("server", "state", "kills"),
    [
        (PostgresServer, "opaque", 6),
        pytest.param(PostgresServer, "opaque", 20, marks=pytest.mark.long),
        pytest.param(PostgresServer, "transactional", 20, marks=pytest.mark.long),
        pytest.param(RedisServer, "opaque", 20, marks=pytest.mark.long),
        pytest.param(RedisServer, "transactional", 20, marks=pytest.mark.long),
    ],
)
def test_kills_during_commits_leave_counts_exact(
    run_topology: RunTopology,
    monkeypatch: pytest.MonkeyPatch,
    server: Server,
    state: str,
    kills: int,
) -> None:
    """The processes that write to the database are killed in turn, without a pause."""
    text: list[str] = []
    with server() as database:
        monkeypatch.setenv("KSTORM_TEST_DATABASE", database.name)
        monkeypatch.setenv("KSTORM_TEST_STATE", state)
        with run_topology("outside") as engine:
            for number in range(kills):
                text += sentences(number)
                engine.produce(sentences(number))
                worker = engine.worker(f"count-{number % 2}")
                engine.until(
                    lambda: sum(engine.offsets().values()) < engine.produced,
                    60,
                    "messages are under way",
                )
                worker.process.kill()
                engine.until(lambda: worker.status() is not None, 60, f"{worker.name} is back")  # noqa: B023 - called at once
            engine.await_done("sentences")
            engine.until(
                lambda: counts(database.name, state) == truth(text), 60, "the counts are the truth"
            )


@pytest.mark.long
@pytest.mark.parametrize("server", [PostgresServer, RedisServer])
def test_database_outage_is_survived(
    run_topology: RunTopology, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    """It happens at the end of an epoch. A process that cannot write exits and restarts until it
    can.

    No word is lost or counted twice.
    """
    text: list[str] = []
    with server() as database:
        monkeypatch.setenv("KSTORM_TEST_DATABASE", database.name)
        monkeypatch.setenv("KSTORM_TEST_STATE", "opaque")
        with run_topology("outside") as engine:
            for number in range(2):
                text += sentences(number) * 2
                engine.produce(sentences(number))
                engine.await_done(
                    "sentences"
                )  # all words are known, so only writes need the database
                before = lives(engine)
                database.kill()
                engine.produce(sentences(number))
                engine.until(
                    lambda: lives(engine) != before,  # noqa: B023
                    60,
                    "a process has ended, as it could not write",
                )
                database.start()
            engine.await_done("sentences", 120)
            engine.until(
                lambda: counts(database.name, "opaque") == truth(text),
                60,
                "the counts are the truth",
            )


def test_fenced_writer_of_redis_writes_nothing() -> None:
    """The same holds for SQL in `tests/unit/trident/test_outside.py`: a write is atomic for any
    number of keys."""
    with RedisServer() as server:
        database = backing(server.name)
        database.open()
        old, nothing = database.begin_life("t/0")
        assert nothing == []
        database.multi_put(old, ["a", "b"], [1, ["x", None]])
        other, _ = database.begin_life("t/1")
        new, last = database.begin_life("t/0")
        assert (last, new.life) == (["a", "b"], old.life + 1)
        with pytest.raises(
            FencedError, match="another process has taken over t/0: nothing was written to 'counts'"
        ):
            database.multi_put(old, ["c"], [1])
        database.multi_put(other, ["d"], [4])
        assert database.multi_get(["a", "b", "c", "d"]) == [1, ["x", None], None, 4]
        keys = [str(number) for number in range(12_000)]
        database.multi_put(new, keys, list(range(12_000)))
        assert database.multi_get(keys) == list(range(12_000))
        assert database.begin_life("t/0")[1] == keys
        database.close()
        texts = RedisMap(partial(redis_client, server.port, decode_responses=True), "counts")
        with pytest.raises(ConfigError, match="without decode_responses"):
            texts.open()
    with pytest.raises(ConfigError, match="without braces"):
        RedisMap(partial(redis_client, 1), "{x}")


def lives(engine: Engine) -> list[int]:
    """Return the number of starts of each writing process."""
    return [worker.process.starts for worker in engine.processes.of("count")]


def truth(text: list[str]) -> Counter[str]:
    """Return the number of occurrences of each word."""
    return Counter(word for sentence in text for word in sentence.split())


def counts(database: str, state: str) -> dict[str, int]:
    return {
        word: row[1][0] if state == "opaque" else row[1] for word, row in stored(database).items()
    }

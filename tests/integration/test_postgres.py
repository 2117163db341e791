"""Counts of a stream in a real PostgreSQL: whatever is killed amid commits, they are the truth."""

from collections import Counter

import msgspec
import pytest

from tests.integration.conftest import RunTopology
from tests.integration.postgres import connect
from tests.integration.postgres_server import PostgresServer

KILLS = 20
SHARE = 300
WORDS = ("one", "two", "three", "four", "five", "six", "seven")


def sentences(number: int) -> list[str]:
    """Some text."""
    return [f"the {WORDS[(number + each) % 7]} {WORDS[each % 5]}" for each in range(SHARE)]


@pytest.mark.parametrize("state", ["opaque", pytest.param("transactional", marks=pytest.mark.long)])
def test_kills_amid_commits(run_topology: RunTopology, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """Of the processes that write to the database, in turn, without a pause."""
    text: list[str] = []
    with PostgresServer() as postgres:
        monkeypatch.setenv("KSTORM_TEST_POSTGRES", str(postgres.port))
        monkeypatch.setenv("KSTORM_TEST_STATE", state)
        with run_topology("outside") as engine:
            for number in range(KILLS):
                text += sentences(number)
                engine.produce(sentences(number))
                worker = engine.worker(f"count-{number % 2}")
                engine.until(lambda: sum(engine.offsets().values()) < engine.produced, 60, "messages are under way")
                worker.process.kill()
                engine.until(lambda: worker.status() is not None, 60, f"{worker.name} is back")  # noqa: B023 - called at once
            engine.await_done("sentences")
            engine.until(lambda: counts(postgres.port, state) == truth(text), 60, "the counts are the truth")


def truth(text: list[str]) -> Counter[str]:
    """How often each word is in it."""
    return Counter(word for sentence in text for word in sentence.split())


def counts(port: int, state: str) -> dict[str, int]:
    """What the database has."""
    connection = connect(port)
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT id, value FROM counts")
        rows = {word: msgspec.msgpack.decode(value) for word, value in cursor.fetchall()}
    finally:
        connection.close()
    return {word: row[1][0] if state == "opaque" else row[1] for word, row in rows.items()}

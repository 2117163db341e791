"""A thousand dead letters are replayed after a fix: each message is processed once, under its own
name."""

from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from kstorm.cli.__main__ import main
from kstorm.dev.servers import EmbeddedKafka
from kstorm.operations.letters.reading import read_letters
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.event_log import read_events
from kstorm.runtime.kafka.single_partition_topic import read_topic
from tests.integration.conftest import RunTopology
from tests.integration.engine import SOURCE_PARTITIONS
from tests.integration.test_lineage import records

LETTERS, OTHERS = 1000, 500


@pytest.mark.slow
def test_thousand_letters_are_replayed_and_each_word_is_written_once(
    kafka: EmbeddedKafka,
    topic_prefix: str,
    run_topology: RunTopology,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replay has stages. No letter is requested twice, and none remains."""
    mended = tmp_path / "mended"
    monkeypatch.setenv("KSTORM_TEST_MENDED", str(mended))
    text = [
        f"s{number} {'good' if number % 3 == 0 else 'bad'} end"
        for number in range(LETTERS + OTHERS)
    ]
    with run_topology("mendable") as engine:
        name, settings = topic_prefix, Settings(topology="", bootstrap_servers=kafka.bootstrap)
        engine.produce(text)
        engine.until(
            lambda: len(read_letters(settings, name).letters) == LETTERS,
            120,
            "all bad ones are letters",
        )
        engine.until(lambda: len(records(engine)) == 3 * OTHERS, 60, "and the others are through")
        mended.touch()
        with pytest.raises(SystemExit, match="0"):
            main(
                [
                    "dlq",
                    "replay",
                    "--all",
                    "--yes",
                    "--topology",
                    name,
                    "--bootstrap",
                    kafka.bootstrap,
                ]
            )
        engine.until(lambda: not read_letters(settings, name).letters, 180, "no letter is left")
        outcomes = Counter(
            event.outcome
            for event in read_events(settings, name)
            if event.who.startswith("sentences")
        )
        assert outcomes == {"done": LETTERS}
        found = [
            dict(cast("list[tuple[str, bytes]]", record.headers())) for record in records(engine)
        ]
        last = {record.key(): record.value() for record in read_topic(settings, f"{name}.__orders")}
        assert {value for value in last.values() if value is not None} == set(), (
            "no order is left open"
        )
    names = Counter(
        tuple(int(headers[f"kstorm-source-{part}"]) for part in ("partition", "offset", "part"))
        for headers in found
    )
    assert names == {
        (at % SOURCE_PARTITIONS, at // SOURCE_PARTITIONS, place): 1
        for at in range(len(text))
        for place in range(3)
    }

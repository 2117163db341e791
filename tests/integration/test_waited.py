"""`kstorm dlq show --why` on real servers: a bolt forgets a tuple, and the message's letter leads
to it."""

import json
import re

import pytest

from kstorm.core.dead_letters import TIMED_OUT
from kstorm.dev.servers import EmbeddedKafka
from kstorm.operations.letters.reading import read_letters
from kstorm.runtime.base.settings import Settings
from tests.integration import topologies
from tests.integration.conftest import RunTopology
from tests.kstorm_command import Command, run_kstorm


@pytest.fixture
def show(kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str]) -> Command:
    """A function that runs `kstorm dlq show` and returns exit code, output and errors."""

    return lambda *words: run_kstorm(capsys, "dlq", "show", *words, "--bootstrap", kafka.bootstrap)


@pytest.mark.slow
def test_letter_shows_what_its_tree_waited_for(
    run_topology: RunTopology, kafka: EmbeddedKafka, topic_prefix: str, show: Command
) -> None:
    """It has component, task and tuple.

    It needs the topology's code and the letter of a timeout.
    """
    with run_topology("impatient", timeout_secs=3) as engine:
        engine.produce(["the cow jumped over the moon", "the cow", "bad"])
        settings = Settings(topology="", bootstrap_servers=kafka.bootstrap)
        engine.until(
            lambda: len(read_letters(settings, topic_prefix).letters) == 2, 60, "two letters"
        )
    failed, timed_out = sorted(
        read_letters(settings, topic_prefix).letters, key=lambda one: one.letter.offset
    )
    if failed.letter.kind == TIMED_OUT:
        failed, timed_out = timed_out, failed
    assert (failed.letter.kind, timed_out.letter.kind) == ("failed", TIMED_OUT)
    number, code = str(timed_out.number), f"{topologies.__name__}:impatient"
    done, shown, _ = show(number, "--topology", code, "--why")
    assert done == 0
    tuple = rf"count\[[0-3]\], row \d+ of {topic_prefix}\.count/[0-3]/\d+: sent [\d.]+ m?s before, and not acked"
    assert re.search(rf"^waited for  {tuple}$", shown, re.MULTILINE), shown
    assert re.fullmatch(
        tuple, json.loads(show(number, "--topology", code, "--why", "--raw")[1])["waiting_on"]
    )
    assert (
        "waited for  (--why finds it in the topics)" in show(number, "--topology", topic_prefix)[1]
    )
    assert (
        f"the code of {topic_prefix!r} is needed, because it defines"
        in show(number, "--topology", topic_prefix, "--why")[2]
    )
    assert "this one is failed" in show(str(failed.number), "--topology", code, "--why")[2]

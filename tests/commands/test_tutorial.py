"""The tutorial's page *Run it*, on a real Kafka and a real ZooKeeper."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.command import started
from tests.conftest import Eventually
from tests.tutorial import START, Step, blocks, is_printed, run, steps

LONG = 900


@pytest.mark.slow
@pytest.mark.timeout(LONG)
def test_commands_print_what_the_page_shows(tmp_path: Path, eventually: Eventually) -> None:
    """The outputs follow within a minute, because the commands do not wait for each other."""
    texts = [block for block in blocks(START / "first-topology.md") if block.title == "hello.py"]
    (tmp_path / "hello.py").write_text("".join(block.text for block in texts))
    page = blocks(START / "run.md")
    (start,) = [block.text.split() for block in page if block.text.startswith("kstorm dev ")]
    with started("kstorm", *start[1:], "--no-page", home=tmp_path, folder=tmp_path) as command:
        eventually(lambda: "acked " in command.said or command.process.poll() is not None, 400)
        found = re.search(r"Kafka is at (\S+), ZooKeeper at (\S+);", command.said)
        assert found, command.said
        variables = {
            "KSTORM_TOPOLOGY": "hello:topology",
            "KSTORM_BOOTSTRAP_SERVERS": found[1],
            "KSTORM_ZOOKEEPER": found[2],
        }
        ran = 0
        for block in page:
            for step in steps(block) if block.language == "console" else ():
                eventually(partial(_prints, step, tmp_path, variables), 120)
                ran += 1
    assert ran == 3


def _prints(step: Step, folder: Path, variables: Mapping[str, str]) -> bool:
    return is_printed(step.output, run(step.command, folder, variables))

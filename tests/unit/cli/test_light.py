"""Modules that a command must not load at its start. Each one takes a tenth of a second or more."""

import subprocess
import sys

import pytest

from kstorm.cli.__main__ import COMMANDS, GROUPS, HIDDEN

HEAVY = (
    "aiohttp",
    "faust",
    "kstorm.flux",
    "kstorm.kafka.partition_manager",
    "kubernetes",
    "numpy",
    "opentelemetry",
    "rocksdict",
    "structlog",
    "yaml",
)
NEEDED = {
    "values": {"kstorm.flux", "kstorm.kafka.partition_manager", "numpy", "yaml"},
    "flux-schema": {"kstorm.flux", "yaml"},
    "migrate": {"kstorm.flux", "yaml"},
    "prepare": {"kstorm.kafka.partition_manager", "numpy"},
    "probe": {"kstorm.kafka.partition_manager", "numpy"},
}
_LOAD = """
import sys
from kstorm.cli.__main__ import build
for name in sys.argv[1].split(","):
    build([name])
print(",".join(module for module in sys.argv[2].split(",") if module in sys.modules))
"""


def loaded(*commands: str) -> set[str]:
    words = [sys.executable, "-c", _LOAD, ",".join(commands), ",".join(HEAVY)]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return set(told.split(",")) - {""}


@pytest.mark.parametrize("command", sorted(NEEDED))
def test_command_loads_only_the_heavy_modules_that_it_needs(command: str) -> None:
    assert loaded(command) <= NEEDED[command]


def test_other_commands_load_no_heavy_module() -> None:
    """One process loads them all, because one per command would take half a minute."""
    assert loaded(*sorted({*GROUPS, *COMMANDS, *HIDDEN} - set(NEEDED))) == set()


def test_help_of_kstorm_loads_no_command() -> None:
    words = "import sys, kstorm.__main__ as m; m._help(); print('typer' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"

"""The pipeline on the oldest release of Spark that it allows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark_release import SELECTED
from tools.spark_releases import OLD_SPARK_VERSION

ROOT = Path(__file__).parents[2]

TESTS = (
    "test_tables.py",  # bronze, silver, gold and quarantine
    "test_arrow.py::test_interrupted_batch_is_not_written_twice",
    "test_registry_formats.py::test_every_avro_type",
    "test_registry_formats.py::test_every_json_schema_type",
    "test_protobuf_records.py::test_every_message_type_becomes_a_delta_column",
    "test_audit.py::test_complete_topology_has_no_faults",
    "test_secrets.py::test_old_spark_is_not_started_with_encryption",
)


@pytest.mark.slow
@pytest.mark.timeout(1500)  # the first run downloads and unpacks pyspark
@pytest.mark.skipif(SELECTED == OLD_SPARK_VERSION, reason="all tests of this run use it")
def test_oldest_spark_makes_the_same_tables() -> None:
    """It runs tests of this folder in another process, because a process has one Spark."""
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *(f"tests/pipeline/{test}" for test in TESTS)],
        cwd=ROOT,
        env=environment | {"KSTORM_TEST_SPARK": OLD_SPARK_VERSION},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout

"""The packages that Spark fetches if no jars are given."""

from pathlib import Path

import pytest

from kstorm.dev.jars import SPARK_SET, SPARK_VERSION, list_path, parse_list
from kstorm_pipeline.session import packages
from tools.spark_releases import OLD_SPARK_LIST, OLD_SPARK_VERSION


@pytest.mark.parametrize(
    ("version", "jar_list"),
    [(SPARK_VERSION, list_path(SPARK_SET)), (OLD_SPARK_VERSION, OLD_SPARK_LIST)],
)
def test_packages_are_the_tested_ones(version: str, jar_list: Path) -> None:
    tested = {f"{jar.group}:{jar.artifact}:{jar.version}" for jar in parse_list(jar_list)}
    assert set(packages(version)) <= tested

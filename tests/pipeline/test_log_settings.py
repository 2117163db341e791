"""Each logger of the pipeline's log4j2.properties belongs to a class of the Spark in use.

If a release of Spark moves a class, the setting has no effect.
"""

import re
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

import kstorm_pipeline
from tests.spark_release import spark_jars

SETTINGS = Path(kstorm_pipeline.__file__).with_name("log4j2.properties").read_text()
S3_ONLY = {"org.apache.hadoop.fs.s3a.S3ABlockOutputStream"}


@pytest.fixture(scope="module")
def entries() -> set[str]:
    """Names of all files in the jars."""
    jars = [*(Path(pyspark.__file__).parent / "jars").glob("*.jar"), *spark_jars()]
    return {name for jar in jars for name in ZipFile(jar).namelist()}


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"^logger\.\w+\.name = (\S+)", SETTINGS, re.M)) - S3_ONLY)
)
def test_logger_exists(entries: set[str], name: str) -> None:
    path = name.replace(".", "/")
    assert not entries.isdisjoint({f"{path}.class", f"{path}$.class", f"{path}/"})

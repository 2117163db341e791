"""Folders that are not there, and folders of which nobody knows whether they are."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kstorm.local.ports import reserve_port
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.places import names_in


@pytest.mark.slow
def test_a_folder_that_is_not_there_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "silver").mkdir()
    assert names_in(spark, str(tmp_path)) == ["silver"]
    assert names_in(spark, str(tmp_path / "nothing")) == []


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_not_empty(spark: SparkSession) -> None:
    """Nothing listens at that port."""
    place = f"ftp://nobody:nothing@127.0.0.1:{reserve_port()}/tables"
    with pytest.raises(PipelineError, match=f"{place} cannot be read: .*refused") as error:
        names_in(spark, place)
    assert "\n" not in str(error.value)

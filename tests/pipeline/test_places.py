"""Missing folders, and folders that cannot be checked."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kstorm.dev.free_ports import reserve_port
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.storage import list_names


@pytest.mark.slow
def test_missing_folder_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "silver").mkdir()
    assert list_names(spark, str(tmp_path)) == ["silver"]
    assert list_names(spark, str(tmp_path / "nothing")) == []


@pytest.mark.slow
def test_unreachable_store_is_an_error(spark: SparkSession) -> None:
    """Nothing listens on that port."""
    place = f"ftp://nobody:nothing@127.0.0.1:{reserve_port()}/tables"
    with pytest.raises(PipelineError, match=f"{place} cannot be read: .*refused") as error:
        list_names(spark, place)
    assert "\n" not in str(error.value)

"""Kafka timestamps that Spark or Python cannot represent."""

import pytest

from kstorm_pipeline.errors import PipelineError
from tests.pipeline.conftest import Job
from tests.pipeline.sink import NOON

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that

YEAR_10000 = 253402300800000
LAST_OF_SPARK = 2**63 // 1000


@pytest.mark.long
def test_record_after_the_year_9999_is_quarantined(job: Job) -> None:
    """With its coordinates, and the timestamp in its reason. The last millisecond before is good,
    and later records are read. Python can read the quarantine."""
    job.sink.sentence(1, "the cat", at=YEAR_10000 - 1)
    for at in (YEAR_10000, LAST_OF_SPARK):
        job.sink.malformed(
            b'{"word": "cat", "count": 3, "id": "sentences-0-1-0", "emitted_at": 5}', at=at
        )
    job.run()
    job.sink.sentence(2, "the dog")
    job.run()
    job.check()
    rows = {(row.partition, row.offset): row for row in job.read("quarantine").collect()}
    expected = {(r.partition, r.offset): r.at for r in job.sink.records if r.at >= YEAR_10000}
    assert rows.keys() == expected.keys()
    for place, at in expected.items():
        assert rows[place].reason == f"the Kafka timestamp is after the year 9999: {at} ms"
        assert rows[place].timestamp is None


@pytest.mark.slow
def test_record_after_sparks_last_timestamp_is_named(job: Job) -> None:
    """Spark's source fails at a timestamp after the year 294247, whatever the query does. The
    message has the record's location."""
    job.sink.sentence(1, "the cat", at=NOON)
    job.sink.malformed(b"{}", at=LAST_OF_SPARK + 1)
    job.sink.flush()
    (record,) = (record for record in job.sink.records if record.at > LAST_OF_SPARK)
    place = f"the first are at partition {record.partition}, offset {record.offset}\\. Delete"
    with pytest.raises(PipelineError, match=place):
        job.run()

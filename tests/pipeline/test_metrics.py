"""Metrics of real runs: batches, lag of tables, stuck queries."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kstorm.dev.servers import EmbeddedKafka
from kstorm_pipeline import Pipeline
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.maintenance import maintain
from kstorm_pipeline.monitor.bronze_lag import BronzeLag
from kstorm_pipeline.monitor.lag import TableLag
from kstorm_pipeline.monitor.metric_polling import at_audits, polling_metrics
from kstorm_pipeline.monitor.monitor import Monitor
from kstorm_pipeline.monitor.topic_lag import TopicLag
from kstorm_pipeline.run import run
from kstorm_pipeline.storage import write_text
from tests.pipeline.beside import run_beside
from tests.pipeline.breaking import break_off_after
from tests.pipeline.conftest import Job, await_condition
from tests.pipeline.sink import NOON
from tests.pipeline.topic import Topic


def shown(monitor: Monitor) -> dict[tuple[str, str], float]:
    """Return the samples of the metrics page, by name and the value of the only label."""
    families = text_string_to_metric_families(monitor.metrics.text().decode())
    samples = (sample for family in families for sample in family.samples)
    return {
        (each.name, next(iter(each.labels.values()), "")): each.value
        for each in samples
        if "le" not in each.labels
    }


@pytest.mark.slow
def test_rows_are_counted_by_table(job: Job) -> None:
    """Two sentences of three words, one of them written twice, and an unreadable record."""
    job.sink.sentence(1, "the cat the")
    job.sink.sentence(2, "the big dog")
    job.sink.sentence(1, "the cat the")
    job.sink.malformed(b"?")
    job.sink.flush()
    monitor = Monitor(600)
    run(job.spark, job.settings, job.tables, job.pipeline, monitor)
    found = shown(monitor)
    rows = {
        table: found["kstorm_pipeline_rows_total", table]
        for table in ("bronze", "silver", "quarantine", "word_counts")
    }
    assert rows == {"bronze": 10, "silver": 6, "quarantine": 1, "word_counts": 4}
    assert found["kstorm_pipeline_replays_total", ""] == 3
    for query in ("bronze", "refine"):
        assert found["kstorm_pipeline_batch_seconds_count", query] >= 1
        assert found["kstorm_pipeline_batch_seconds_sum", query] > 0
    for table in rows:
        assert found["kstorm_pipeline_table_seconds_total", table] > 0


@pytest.mark.slow
def test_mostly_unreadable_batch_is_logged(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    """If its share exceeds the setting, but not if it equals it. The warning has a reason as an
    example."""

    def warned(percent: float) -> tuple[float, str]:
        caplog.clear()
        monitor = Monitor(600)
        job.sink.sentence(1, "the")
        job.sink.malformed(b"?")
        job.sink.flush()
        run(
            job.spark,
            replace(job.settings, quarantine_percent=percent),
            job.tables,
            job.pipeline,
            monitor,
        )
        warnings = " ".join(
            record.getMessage() for record in caplog.records if record.levelname == "WARNING"
        )
        return shown(monitor)["kstorm_pipeline_mostly_quarantined_batches_total", ""], warnings

    assert warned(50) == (0, "")
    count, warning = warned(49.5)
    assert count == 1
    assert (
        "1 of 2 records cannot be read, more than 49.5 % (--quarantine-percent), for example: "
        in warning
    )
    reasons = {row[0] for row in job.read("quarantine").select("reason").collect()}
    assert len(reasons) == 1
    assert f"for example: {reasons.pop()}. Check that the pipeline's declaration" in warning


@pytest.mark.slow
def test_lag_of_bronze_behind_the_topic(job: Job) -> None:
    """The number of records and the time of the oldest. Only the first record of each partition is
    read."""
    with closing(TopicLag(job.spark, job.settings)) as topic:
        assert topic.find() == TableLag()
        job.sink.sentence(1, "the cat", at=NOON + 5000)
        job.sink.sentence(2, "a dog and a cat", at=NOON + 7000)
        job.sink.flush()
        assert topic.find() == TableLag(7, (NOON + 5000) / 1000), "nothing is read yet"
        job.run()
        assert topic.find() == TableLag()
        job.sink.sentence(3, "the end", at=NOON + 9000)
        job.sink.flush()
        assert topic.find() == TableLag(2, (NOON + 9000) / 1000)


@pytest.mark.slow
def test_first_run_from_the_end_has_no_lag(job: Job) -> None:
    job.sink.sentence(1, "the cat")
    job.sink.flush()
    with closing(TopicLag(job.spark, replace(job.settings, starting_offsets="latest"))) as topic:
        assert topic.find() == TableLag()


@pytest.mark.long
def test_lag_of_silver_behind_bronze(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch counts until it is committed. `maintain`, which rewrites files of bronze, adds
    nothing."""
    bronze = BronzeLag(job.spark, job.settings, job.tables.path("bronze"))
    assert bronze.find() == TableLag()
    job.sink.sentence(1, "the cat", at=NOON)
    job.run()
    assert bronze.find() == TableLag()
    job.sink.sentence(2, "a dog and a cat", at=NOON + 3000)
    job.sink.flush()
    with monkeypatch.context() as patch:
        break_off_after("write_silver", patch)
        with pytest.raises(PipelineError):
            job.run()
    lacking = TableLag(5, (NOON + 3000) / 1000)
    assert bronze.find() == lacking
    list(maintain(job.spark, job.settings, job.tables))
    assert (
        bronze.find()
        == BronzeLag(job.spark, job.settings, job.tables.path("bronze")).find()
        == lacking
    )
    job.run()
    assert bronze.find() == TableLag()


@pytest.mark.slow
def test_hanging_user_function_makes_the_run_not_ready(job: Job) -> None:
    """After a tenth of the limit. It is ready again when the function continues."""
    go_on = threading.Event()
    pipeline = Pipeline()
    pipeline.batch(lambda _rows, _batch: go_on.wait(120))  # type: ignore[arg-type]
    monitor = Monitor(stalled_seconds=20)
    job.sink.sentence(1, "the cat")
    job.sink.flush()

    def user() -> None:
        try:
            await_condition(
                lambda: (monitor.not_ready or "").startswith("refine has made no progress for"), 60
            )
            assert monitor.stalled is None
        finally:
            go_on.set()
        await_condition(lambda: monitor.not_ready is None, 60)

    settings = replace(job.settings, trigger="continuous", interval_seconds=0.5)
    run_beside(user, lambda: run(job.spark, settings, job.tables, pipeline, monitor))


@pytest.mark.slow
def test_failed_metric_update_is_logged_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    tried = iter([OSError("the disk is away"), None, None])
    again = threading.Event()

    def look() -> None:
        problem = next(tried, None)
        if problem:
            raise problem
        again.set()

    with polling_metrics({"the lag": look}, every=0.01):
        assert again.wait(10)
    assert "cannot update the lag: the disk is away" in caplog.text


@pytest.mark.slow
def test_time_of_completeness_is_a_metric(job: Job, tmp_path: Path) -> None:
    monitor = Monitor(600)
    at_audits(monitor.metrics, job.spark, f"{tmp_path}/_audit")
    write_text(job.spark, f"{tmp_path}/_audit/orders", str(time.time()))
    write_text(job.spark, f"{tmp_path}/_audit/orders", "1700000000.5")
    at_audits(monitor.metrics, job.spark, f"{tmp_path}/_audit")
    assert (
        shown(monitor)["kstorm_pipeline_complete_until_timestamp_seconds", "orders"] == 1700000000.5
    )


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path / "kafka", heap="256m", quick_start=True) as kafka:
        yield kafka


@pytest.mark.slow
def test_lost_broker_is_named_in_one_line(
    job: Job, own_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """The timeout is a second here, so it takes a few seconds."""
    topic = Topic(own_kafka.bootstrap)
    topic.put(b"{}")
    topic.flush()
    settings = replace(
        job.settings,
        topic=topic.topic,
        bootstrap_servers=own_kafka.bootstrap,
        tables=str(tmp_path / "tables"),
        trigger="continuous",
        interval_seconds=0.5,
        kafka_options={"request.timeout.ms": "1000", "default.api.timeout.ms": "1000"},
    )
    written = Path(settings.tables) / "silver" / "_delta_log" / f"{1:020}.json"

    def operator() -> None:
        await_condition(written.exists)
        own_kafka.stop()

    thread = threading.Thread(target=operator)
    thread.start()
    with pytest.raises(
        PipelineError,
        match=rf"^Kafka at {own_kafka.bootstrap} no longer responds \(.*\): when it is up",
    ) as error:
        run(job.spark, settings, replace(job.tables, root=settings.tables), Pipeline())
    thread.join()
    assert "\n" not in str(error.value)

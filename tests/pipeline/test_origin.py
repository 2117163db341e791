"""A sink topic that is not the source of the existing tables."""

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kstorm_pipeline.errors import PipelineError
from tests.pipeline.conftest import Job, await_condition
from tests.pipeline.sink import Sink

pytestmark = pytest.mark.timeout(
    900
)  # a minute on two idle cores, ten times as long on a busy machine

MADE_ANEW = r"the topic 'sink-\w+' was deleted and made anew: its id is \S+, and the tables are made of \S+\. Give --tables"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "allow_data_loss"),
    [
        ("the cat", False),
        pytest.param("the cat", True, marks=pytest.mark.slow),
        pytest.param(
            "the cat and the dog and the mouse and the elephant", False, marks=pytest.mark.slow
        ),
    ],
)
def test_recreated_topic_is_rejected(job: Job, words: str, allow_data_loss: bool) -> None:
    """It may be shorter or longer than the old one, with or without allowed data loss. No table
    changes.

    The error has the remedy. New tables get the whole new topic.
    """
    job.sink.sentence(1, "the cat and the dog")
    job.run()
    before = job.snapshot()
    job.sink.make_anew()
    job.sink.sentence(2, words)
    for _ in range(2):
        with pytest.raises(PipelineError, match=MADE_ANEW) as error:
            job.run(allow_data_loss=allow_data_loss)
        assert "\n" not in str(error.value)
    assert job.snapshot() == before
    other = replace(job, settings=replace(job.settings, tables=f"{job.settings.tables}/other"))
    other.run()
    other.check()


@pytest.mark.slow
def test_recreated_topic_ends_a_continuous_run(job: Job) -> None:
    """The tables get nothing of the new topic, although it has more records."""
    commits = Path(job.settings.checkpoint_root) / "bronze" / "commits"
    ended = threading.Event()

    def user() -> None:
        try:
            await_condition((commits / "0").exists)
            job.sink.make_anew()
            job.sink.sentence(2, "the cat and the dog and the mouse and the elephant")
            job.sink.flush()
            await_condition(lambda: (commits / "1").exists() or ended.is_set())
        finally:
            if not ended.is_set():
                os.kill(os.getpid(), signal.SIGTERM)

    job.sink.sentence(1, "the cat and the dog")
    job.sink.flush()
    thread = threading.Thread(target=user)
    thread.start()
    try:
        # A check without a topic reports the missing topic.
        with pytest.raises(PipelineError, match=f"{MADE_ANEW}|there is no topic"):
            job.run(trigger="continuous", interval_seconds=15)
    finally:
        ended.set()
        thread.join()
    assert job.read("bronze").count() == 5
    with pytest.raises(PipelineError, match=MADE_ANEW):
        job.run()


def test_tables_belong_to_one_topic(job: Job) -> None:
    """Another name is rejected, with both names. The topic must exist."""
    with pytest.raises(
        PipelineError,
        match=r"there is no topic 'none' at 127.0.0.1:\d+: create it or correct --topic",
    ):
        job.run(topic="none")
    assert not job.tables.exists(job.spark, "bronze")
    job.sink.sentence(1, "the cat")
    job.run()
    other = Sink(job.sink.bootstrap)
    message = rf"the tables at \S+ are made of the topic '{job.sink.topic}', not of '{other.topic}': correct --topic"
    with pytest.raises(PipelineError, match=message):
        job.run(topic=other.topic)


@pytest.mark.slow
def test_tables_of_an_earlier_version_adopt_the_topic(job: Job) -> None:
    """Both queries continue, and the topic is known from then on."""
    job.sink.sentence(1, "the cat")
    job.run()
    path = job.tables.path("bronze")
    job.spark.sql(
        f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('kstorm.topic', 'kstorm.topic.id')"
    )
    job.sink.sentence(2, "the dog")
    job.run()
    job.check()
    job.sink.make_anew()
    with pytest.raises(PipelineError, match=MADE_ANEW):
        job.run()

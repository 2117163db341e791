"""A sink topic other than the one that the tables were made from."""

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from kstorm_pipeline.broker_probe import ask_brokers
from kstorm_pipeline.errors import PipelineError, SettingsError
from kstorm_pipeline.settings import Settings
from tests.pipeline.conftest import Job, await_condition
from tests.pipeline.sink import Sink
from tests.pipeline.topic import Topic

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that

MADE_ANEW = r"the topic 'sink-\w+' was deleted and recreated: its id is \S+, and the tables were made from \S+\. Set --tables"


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "allow_data_loss"),
    [
        ("the cat", False),
        pytest.param("the cat", True, marks=pytest.mark.long),
        pytest.param(
            "the cat and the dog and the mouse and the elephant", False, marks=pytest.mark.long
        ),
    ],
)
def test_recreated_topic_is_refused(job: Job, words: str, allow_data_loss: bool) -> None:
    """It may be shorter or longer than the old one, with or without allowed data loss. No table
    changes.

    The message has the remedy. Other tables get all of the new topic.
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
    """Nothing of the new topic gets into the tables, although it has more records than were read of
    the old one."""
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


@pytest.mark.slow
def test_tables_belong_to_one_topic(job: Job) -> None:
    """Another topic's name is refused with both names. The topic must exist."""
    with pytest.raises(
        PipelineError,
        match=r"there is no topic 'none' at 127.0.0.1:\d+: create it or correct --topic",
    ):
        job.run(topic="none")
    assert not job.tables.exists(job.spark, "bronze")
    job.sink.sentence(1, "the cat")
    job.run()
    other = Sink(job.sink.bootstrap)
    message = rf"the tables at \S+ were made from the topic '{job.sink.topic}', not from '{other.topic}': correct --topic"
    with pytest.raises(PipelineError, match=message):
        job.run(topic=other.topic)


@pytest.mark.long
def test_tables_of_an_earlier_version_get_their_topics_id(job: Job) -> None:
    """The current topic's id is assumed. Both queries continue, and the id is stored."""
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


def test_topic_is_asked_for_without_spark(settings: Settings) -> None:
    """A real broker answers the request with the id that a client gets. Java writes it for URLs."""
    topic = Topic(settings.bootstrap_servers)
    admin = AdminClient({"bootstrap.servers": topic.bootstrap})
    described = admin.describe_topics(TopicCollection([topic.topic]))[topic.topic].result(30)
    known = str(described.topic_id).translate(str.maketrans("+/", "-_"))
    assert ask_brokers(replace(settings, topic=topic.topic)) == known
    with pytest.raises(SettingsError, match=r"there is no topic 'none' at 127\.0\.0\.1"):
        ask_brokers(replace(settings, topic="none"))

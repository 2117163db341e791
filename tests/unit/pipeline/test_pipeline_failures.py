"""One-line explanations of failures that a user can fix, from real error texts of Spark and its clients."""

import pytest

from kstorm_pipeline.failures import blame, explain, last_raised
from kstorm_pipeline.settings import Settings

SETTINGS = Settings(
    tables="s3a://lake/orders",
    bootstrap_servers="kafka:9092",
    topic="totals",
    checkpoints="/data/done",
)
QUERY = "[STREAM_FAILED] Query [id = fea0, runId = c589] terminated with exception: {} SQLSTATE: XXKST\n=== Streaming Query ===\n"
KAFKA = "Kafka at kafka:9092"
PLACES = "tables or checkpoints (s3a://lake/orders, /data/done)"

SAID = [
    (
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listNodes",
        f"{KAFKA} no longer responds (kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: ",
    ),
    (
        "Job aborted: java.util.concurrent.TimeoutException: Cannot fetch record for offset 512 in 45000 milliseconds",
        f"{KAFKA} no longer responds (Cannot fetch record for offset 512 in 45000 milliseconds): when it is up",
    ),
    (
        "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [totals]",
        f"{KAFKA} refuses the pipeline's user (TopicAuthorizationException: Not authorized to access topics: [totals]): correct",
    ),
    (
        "An exception was raised by the Python Proxy. Return Message: java.io.IOException: No space left on device",
        f"there is no space left for {PLACES} (No space left on device): enlarge the volume",
    ),
    (
        "java.nio.file.AccessDeniedException: s3a://lake/orders/silver/_delta_log: getFileStatus: 403 Forbidden",
        f"{PLACES} cannot be written (AccessDenied): correct the permissions or the login",
    ),
    (
        "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
        f"{PLACES} cannot be opened (Class org.apache.hadoop.fs.s3a.S3AFileSystem not found): correct --tables, or give",
    ),
    (
        "java.net.UnknownHostException: minio.storage.svc",
        f"the storage of {PLACES} does not respond (UnknownHostException: minio.storage.svc): when it is up",
    ),
    (
        "java.lang.OutOfMemoryError: Java heap space",
        "the heap is too small (OutOfMemoryError: Java heap space): set --driver-memory above 1g,",
    ),
]


@pytest.mark.parametrize(("text", "line"), SAID)
def test_failure_is_explained_with_the_remedy(text: str, line: str) -> None:
    found = explain(QUERY.format(text), SETTINGS)
    assert found is not None
    assert found.startswith(line)
    assert "\n" not in found


def test_unknown_failure_is_not_explained() -> None:
    assert (
        explain(QUERY.format("org.apache.spark.SparkException: something else"), SETTINGS) is None
    )


def test_exception_of_a_user_function_has_its_location() -> None:
    try:
        int("many")
    except ValueError as error:
        found = blame(error)
    assert found is not None
    assert "test_pipeline_failures.py:" in found
    assert "raised ValueError: invalid literal for int() with base 10: 'many'." in found


def test_exception_of_own_code_is_not_blamed_on_the_user() -> None:
    assert blame(ValueError("raised nowhere")) is None


def test_last_exception_of_a_traceback_is_reported() -> None:
    text = "[STREAM_FAILED] Query\nTraceback (most recent call last):\n  File x\nValueError: many\n SQLSTATE: 39000"
    assert last_raised(text) == "ValueError: many"
    assert last_raised("something else\nand more") == "something else"

"""Explains, in one line each, the errors of Spark, Kafka and file systems that a user can fix."""

from __future__ import annotations

import re
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING

import py4j
import pyspark

if TYPE_CHECKING:
    from kstorm_pipeline.settings import Settings

_FULL = "No space left on device", "Disk quota exceeded", "There is not enough space"
_FORBIDDEN = (
    *(
        "Read-only file system",
        "AccessControlException",
        "AccessDenied",
        "Permission denied",
        "403 Forbidden",
    ),
    *("NoAuthWithAWSException", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
)
_NO_PLACE = (
    "NoSuchBucket",
    "No FileSystem for scheme.*",
    "UnsupportedFileSystemException.*",
    r"Class \S+FileSystem not found",
)
_STRANGER = (
    r"(?:Topic|Group|Cluster)AuthorizationException.*",
    "(?:Sasl|Ssl)AuthenticationException.*",
)
_NO_KAFKA = (
    *(
        "Timed out waiting for a node assignment",
        r"Cannot fetch record for offset.*",
        r"Timeout of \d+ms expired.*",
    ),
    *(
        r"kafka\.common\.errors\.TimeoutException.*",
        "DisconnectException.*",
        "BrokerNotAvailableException.*",
    ),
)
_NO_STORAGE = (
    *(
        "UnknownHostException.*",
        "ConnectException.*",
        "NoHttpResponseException.*",
        "SdkClientException.*",
    ),
    "ApiCallTimeoutException.*",
)
_NO_MEMORY = ("OutOfMemoryError.*",)

_LINES = {
    _FULL: "there is no space left for {places} ({cause}): "
    "enlarge the volume, or delete old files with `maintain`, and start again",
    _FORBIDDEN: "{places} cannot be written ({cause}): "
    "correct the permissions or the login of the storage, and start again",
    _NO_PLACE: "{places} cannot be opened ({cause}): "
    "correct --tables, or give the jars of this file system with --jars",
    _STRANGER: "Kafka at {servers} refuses the pipeline's user ({cause}): "
    "correct the login with --kafka-option, or allow the user to read the topic {topic!r}",
    _NO_KAFKA: "Kafka at {servers} no longer responds ({cause}): "
    "when it is up, start again; the run continues from here",
    _NO_STORAGE: "the storage of {places} does not respond ({cause}): "
    "when it is up, start again; the run continues from here",
    _NO_MEMORY: "the heap is too small ({cause}): "
    "set --driver-memory above {memory}, or --max-records-per-batch below {batch}",
}
"""The explanations by the patterns that identify an error. Causes precede their consequences."""
_LONGEST = 200
_NOT_THE_USERS = tuple(
    str(Path(file).parent) for file in (__file__, pyspark.__file__, py4j.__file__)
)
_LONGEST_CAUSE = 400
_NEWLINE = "\n"
_CAUSE = re.compile(
    r"^(?:: |Caused by: |\s*)(?:[\w$]+\.)+([\w$]*(?:Exception|Error)): (\S.*)", re.MULTILINE
)
_RAISED = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception): \S.*)", re.MULTILINE)


def blame(error: Exception) -> str | None:
    """Return one line about an exception that came from the user's function, or None for any other.

    The exception may be the function's own, or Spark's in a call that the function made.
    """
    frames = [
        each
        for each in extract_tb(error.__traceback__)
        if not each.filename.startswith(_NOT_THE_USERS)
    ]
    if not frames:
        return None
    where, said = frames[-1], cause_of(error)
    raised = f"{where.name} ({where.filename}:{where.lineno}) raised {said}"
    return (
        f"the pipeline's function {raised}. Correct it and start again; the run continues from here"
    )


def last_raised(text: str) -> str:
    """Return the last exception in a Python traceback within the text, or else the first line.

    A Java exception is one line with its class and message, never the name of an object.
    """
    found: list[str] = _RAISED.findall(text)
    if not found or found[-1].startswith("Py4J"):
        return _java_cause(text) or text.split("\n", 1)[0]
    return found[-1]


def cause_of(error: Exception) -> str:
    """Return an exception and its message in one line. For a Java error, its first cause."""
    text = str(error).strip()
    own = f"{type(error).__name__}: {text.split(_NEWLINE, 1)[0]}"
    return (_java_cause(text) or own) if type(error).__name__.startswith("Py4J") else own


def _java_cause(text: str) -> str | None:
    """Return the first cause in a Java stack trace, preferably one with Spark's error class."""
    found: list[tuple[str, str]] = _CAUSE.findall(text)
    named = [each for each in found if each[1].startswith("[")]
    for kind, said in reversed(named or found):
        return f"{kind}: {said.strip()[:_LONGEST_CAUSE]}"
    return None


def explain(text: str, settings: Settings) -> str | None:
    """Return one line that names the failure and the remedy, or None if the failure is unknown.

    `text` is the text of an exception with its causes.
    """
    for signs, line in _LINES.items():
        found = re.search("|".join(signs), text)
        if found:
            return line.format(
                cause=found[0].removesuffix(" SQLSTATE: XXKST").strip()[:_LONGEST],
                places=_places(settings),
                servers=settings.bootstrap_servers,
                topic=settings.topic,
                memory=settings.driver_memory,
                batch=settings.max_records_per_batch,
            )
    return None


def _places(settings: Settings) -> str:
    places = ", ".join(filter(None, (settings.tables, settings.checkpoints)))
    return f"tables or checkpoints ({places})"

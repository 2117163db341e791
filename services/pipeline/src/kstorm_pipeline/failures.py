"""What Spark, Kafka's client and file systems say when something fails that a person can mend, and one line for it."""

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
    _FULL: "there is no room left for {places} ({cause}): give the volume more room, or have `maintain` delete what is needed no"
    " more, and start again",
    _FORBIDDEN: "{places} cannot be written ({cause}): correct the rights or the login of the storage, and start again",
    _NO_PLACE: "{places} cannot be opened ({cause}): correct --tables, or give the jars of this file system by --jars",
    _STRANGER: "Kafka at {servers} refuses the pipeline's user ({cause}): correct the login by --kafka-option, or the user's rights"
    " to read the topic {topic!r}",
    _NO_KAFKA: "Kafka at {servers} no longer answers ({cause}): when it is up, start again, which goes on from here",
    _NO_STORAGE: "the storage of {places} does not answer ({cause}): when it is up, start again, which goes on from here",
    _NO_MEMORY: "the heap is too small ({cause}): give --driver-memory more than {memory}, or --max-records-per-batch less than"
    " {batch}",
}
"""By what tells of them. A text may tell of several, the causes of others first."""
_LONGEST = 200
_NOT_THE_USERS = tuple(
    str(Path(file).parent) for file in (__file__, pyspark.__file__, py4j.__file__)
)
_RAISED = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception): \S.*)", re.MULTILINE)


def blame(error: Exception) -> str | None:
    """One line for what a function of the user's has raised, or what Spark has where it was called; None if it was no such one."""
    frames = [
        each
        for each in extract_tb(error.__traceback__)
        if not each.filename.startswith(_NOT_THE_USERS)
    ]
    if not frames:
        return None
    where, said = frames[-1], str(error).strip().split("\n", 1)[0]
    raised = f"{where.name} ({where.filename}:{where.lineno}) raised {type(error).__name__}: {said}"
    return f"the pipeline's function {raised}. Correct it and start again, which goes on from here"


def last_raised(text: str) -> str:
    """Of a text with a Python traceback in it the exception that was raised last, else the first line."""
    found: list[str] = _RAISED.findall(text)
    return found[-1] if found else text.split("\n", 1)[0]


def explain(text: str, settings: Settings) -> str | None:
    """One line that names what failed and what to do, of the text of an exception with its causes; None if it is not known."""
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
    return f"tables or checkpoints ({', '.join(filter(None, (settings.tables, settings.checkpoints)))})"

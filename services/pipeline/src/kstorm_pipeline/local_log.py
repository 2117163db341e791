"""Reads the log of a Delta table on a local disk without Spark.

Spark takes half a minute to start on a busy machine, and the log is a folder of JSON files. A log
with a feature that this module does not support raises NeedsSparkError, and Spark reads the table.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from kstorm_pipeline.setting_values import is_url
from kstorm_pipeline.table_names import LOG, arrange, no_such_table, no_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.(?:(\d{10})\.(\d{10})\.)?parquet")
_ACTIONS: Final = ("add", "remove", "metaData", "protocol")
_FEATURES: Final = frozenset(
    {
        *("deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck"),
        *("variantType", "variantType-preview"),
    }
)
"""The features for readers that do not change which files a table has."""
_LAST_READER: Final = 3


class NeedsSparkError(Exception):
    """Only Spark can read this table. The message is the reason."""


@dataclass(slots=True)
class LocalLog:
    """The present state of a table."""

    folder: Path
    metadata: dict[str, Any] = field(default_factory=dict)
    files: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """The `add` actions of the table's files, by path and deletion vector."""

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.metadata.get("configuration") or {})

    @property
    def schema(self) -> list[dict[str, Any]]:
        """The columns, in Delta's notation."""
        fields: list[dict[str, Any]] = json.loads(self.metadata["schemaString"])["fields"]
        return fields

    def rows(self) -> int:
        """Return the number of rows, if possible from Delta's statistics."""
        return sum(self._rows_of(add) for add in self.files.values())

    def place(self, add: dict[str, Any]) -> Path:
        """Return the location of a file."""
        path = unquote(str(add["path"]))
        if is_url(path) or path.startswith("/"):
            raise NeedsSparkError(f"the file {path} is outside the table's folder")
        return self.folder / path

    def _rows_of(self, add: dict[str, Any]) -> int:
        noted = json.loads(add.get("stats") or "{}").get("numRecords")
        if noted is None:
            with _reading(self.folder):
                noted = pq.read_metadata(self.place(add)).num_rows
        vector = add.get("deletionVector")
        return int(noted) - (int(vector["cardinality"]) if vector else 0)

    def _apply(self, action: dict[str, Any]) -> None:
        if added := action.get("add"):
            self.files[_identity(added)] = added
        elif removed := action.get("remove"):
            self.files.pop(_identity(removed), None)
        elif metadata := action.get("metaData"):
            self.metadata = metadata
        elif protocol := action.get("protocol"):
            _check_protocol(protocol)


def local_tables(root: str) -> list[str]:
    """Return the names of the tables: the pipeline's own first, then gold.

    Raises NeedsSparkError for tables on another storage than a local disk, and SettingsError if
    there are none.
    """
    if is_url(root):
        raise NeedsSparkError(f"the tables at {root} are not on a local disk")
    folder = Path(root)
    try:
        names = [each.name for each in folder.iterdir() if (each / LOG).exists()]
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise NeedsSparkError(f"{root} cannot be read: {error.strerror}") from error
    if not names:
        raise no_tables(root)
    return arrange(names)


def local_table(root: str, name: str) -> LocalLog:
    """Return a table's log. Raises SettingsError if the table does not exist."""
    names = local_tables(root)
    if name not in names:
        raise no_such_table(f"{root.rstrip('/')}/{name}", names)
    return read_log(Path(root, name))


def read_log(folder: Path) -> LocalLog:
    """Return the present state of the table in a folder."""
    log = LocalLog(folder)
    with _reading(folder):
        for action in _actions(folder / LOG):
            log._apply(action)
    if "schemaString" not in log.metadata:
        raise NeedsSparkError(f"the log of {folder} has no schema")
    if log.properties.get("delta.columnMapping.mode", "none") != "none":
        raise NeedsSparkError(f"the columns of {folder} have other names in its files")
    return log


def _actions(folder: Path) -> Iterator[dict[str, Any]]:
    """Return the actions of the last checkpoint and of the commits after it, in their order."""
    names = [each.name for each in folder.iterdir()]
    version, checkpoint = _last_checkpoint(names)
    for name in checkpoint:
        yield from _checkpointed(folder / name)
    commits = sorted(
        number
        for name in names
        if (match := _COMMIT.fullmatch(name)) and (number := int(match[1])) > version
    )
    if commits != list(range(version + 1, version + 1 + len(commits))) or not (
        commits or checkpoint
    ):
        raise NeedsSparkError(f"the commits in {folder} are not complete")
    for number in commits:
        with (folder / f"{number:020}.json").open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield json.loads(line)


def _last_checkpoint(names: Iterable[str]) -> tuple[int, list[str]]:
    """Return the version and the files of the last complete checkpoint, or -1 and none."""
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            parts.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
    whole = [each for each, files in parts.items() if len(files) == each[1]]
    return (max(whole)[0], sorted(parts[max(whole)])) if whole else (-1, [])


def _checkpointed(file: Path) -> Iterator[dict[str, Any]]:
    checkpoint = pq.ParquetFile(file)
    columns = [name for name in _ACTIONS if name in checkpoint.schema_arrow.names]
    for batch in checkpoint.iter_batches(columns=columns):
        yield from batch.to_pylist(maps_as_pydicts="strict")


def _identity(file: dict[str, Any]) -> tuple[str, str]:
    vector = file.get("deletionVector") or {}
    names = ("storageType", "pathOrInlineDv", "offset")
    return str(file["path"]), "@".join(str(vector.get(name) or "") for name in names)


def _check_protocol(protocol: dict[str, Any]) -> None:
    unknown = set(protocol.get("readerFeatures") or ()) - _FEATURES
    if protocol["minReaderVersion"] > _LAST_READER or unknown:
        raise NeedsSparkError(
            f"the table has features that only Spark reads ({', '.join(sorted(unknown))})"
        )


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Turn errors within the block into NeedsSparkError.

    A running pipeline may delete old files meanwhile, and Spark explains other errors.
    """
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise NeedsSparkError(f"{folder} cannot be read: {error}") from error

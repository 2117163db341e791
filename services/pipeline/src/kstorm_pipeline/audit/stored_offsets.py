"""Reads the offsets that the readings have stored in ZooKeeper. Every earlier offset is due."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kstorm_pipeline.errors import PipelineError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstorm_pipeline.audit.ranges import SpoutReading
    from kstorm_pipeline.zookeeper_tls import ZooKeeperTls

_SECONDS = 10.0


def stored_offsets(
    hosts: str, of: Iterable[SpoutReading], tls: ZooKeeperTls | None = None
) -> dict[SpoutReading, int]:
    """Return the offset that each reading resumes from. Readings without a stored offset are left
    out.

    Raises PipelineError if ZooKeeper does not answer. Raises SettingsError if kazoo is not
    installed or a file of `tls` cannot be used.
    """
    try:
        from kazoo.exceptions import KazooException, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError

        from kstorm_pipeline.audit.client import make_client
    except ImportError:
        raise SettingsError(
            "--zookeeper needs the package kazoo: install it, or leave the setting out "
            "(then messages after the last range count as not yet due)"
        ) from None
    client, handler = make_client(hosts, _SECONDS, tls)
    found: dict[SpoutReading, int] = {}
    try:
        client.start(_SECONDS)
        for reading in of:
            path = f"{reading.node}/partition_{reading.partition}"
            try:
                data, _ = client.get(path)
            except NoNodeError:
                continue
            if data:
                found[reading] = _offset(data, path)
    except (KazooException, KazooTimeoutError) as error:
        why = handler.problem or str(error) or type(error).__name__
        way = "without TLS" if tls is None else "with TLS"
        raise PipelineError(
            f"the stored offsets cannot be read from ZooKeeper at {hosts}, {way}: {why}. "
            "Correct --zookeeper and --zookeeper-tls, or check that ZooKeeper is up"
        ) from None
    finally:
        client.stop()
        client.close()
    return found


def _offset(data: bytes, path: str) -> int:
    try:
        return int(json.loads(data)["offset"])
    except (ValueError, KeyError, TypeError):
        raise PipelineError(
            f"the ZooKeeper node {path} has {data[:200]!r}, which is not a stored offset"
        ) from None

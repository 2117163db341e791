"""Redis as the database of states outside."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from kstorm.errors import ConfigError, FencedError
from kstorm.trident.backing import BackingMap, Owner


class RedisMap(BackingMap):
    """Three hashes of a Redis, or of a Valkey: `<name>` with the values, as MessagePack, `{<name>}:lives` with the tasks' lives and
    `{<name>}:stored` with the keys that each has stored last. All are in one slot of a cluster.

    `connect` makes a client of the package `redis`: `RedisMap(partial(redis.Redis, "localhost"), "counts")`. A Redis must not lose
    what it has acknowledged: `appendonly yes`, `appendfsync always`, and no failover to a replica that lags behind; it must not
    evict either (`maxmemory-policy noeviction`).
    """

    def __init__(self, connect: Callable[[], Any], name: str) -> None:
        """Raises `ConfigError` on a name that is empty or has a brace."""
        if not name or set(name) & set("{}"):
            raise ConfigError(f"the hash {name!r}: give a name, without braces")
        self._connect, self._values = connect, name
        self._lives, self._stored = f"{{{name}}}:lives", f"{{{name}}}:stored"
        self._client: Any = None

    def open(self) -> None:
        """See `BackingMap.open`. Raises `ConfigError` on a client that makes texts of what is stored."""
        self._client = self._connect()
        if self._client.get_connection_kwargs().get("decode_responses"):
            raise ConfigError("values are MessagePack: connect to Redis without decode_responses")

    def close(self) -> None:
        """See `BackingMap.close`."""
        if self._client is not None:
            self._client.close()

    def begin_life(self, task: str) -> tuple[Owner, Sequence[str]]:
        """See `BackingMap.begin_life`."""
        with self._client.pipeline(transaction=True) as together:
            together.hincrby(self._lives, task, 1)
            together.hget(self._stored, task)
            life, stored = together.execute()
        return Owner(task, life), [] if stored is None else msgspec.msgpack.decode(stored)

    def multi_get(self, keys: Sequence[str]) -> Sequence[Any]:
        """See `BackingMap.multi_get`."""
        found: list[bytes | None] = []
        for start in range(0, len(keys), _AT_ONCE):
            found += self._client.hmget(self._values, keys[start : start + _AT_ONCE])
        return [None if value is None else msgspec.msgpack.decode(value) for value in found]

    def multi_put(self, owner: Owner, keys: Sequence[str], values: Sequence[Any]) -> None:
        """See `BackingMap.multi_put`."""
        rows = [
            each for key, value in zip(keys, values, strict=True) for each in (key, _encode(value))
        ]
        names = self._lives, self._stored, self._values
        if not self._client.eval(_PUT, len(names), *names, *owner, _encode(list(keys)), *rows):
            raise FencedError(
                f"{owner.task} is another process's now: nothing was written to {self._values!r}"
            )


_encode = msgspec.msgpack.encode
_AT_ONCE: Final = 10_000
"""Keys in one question."""
_PUT: Final = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
for at = 4, #ARGV, 1000 do
  redis.call('HSET', KEYS[3], unpack(ARGV, at, math.min(at + 999, #ARGV)))
end
return 1
"""
"""Is run as one: nobody begins a life amid it, and nobody reads half of it. A thousand at a time, as Lua unpacks a few thousand."""

"""Redis as the database of external states."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from kstorm.errors import ConfigError, FencedError
from kstorm.fitting import Text, checked
from kstorm.trident.backends import BackingMap, Owner


class RedisMap(BackingMap):
    """Three hashes in Redis or Valkey, all in one slot of a cluster:

    - `<name>` has the values as MessagePack.
    - `{<name>}:lives` has the fencing numbers of the tasks.
    - `{<name>}:stored` has the keys of each task's last write.

    `connect` returns a client of the package `redis`:

        RedisMap(partial(redis.Redis, "localhost"), "counts")

    Redis must not lose acknowledged writes. Set `appendonly yes` and `appendfsync always`, and do
    not fail over to a lagging replica. Also set `maxmemory-policy noeviction`, so that it does not
    evict keys.
    """

    @checked()
    def __init__(self, connect: Callable[[], Any], name: Text) -> None:
        """Raises `ConfigError` if the name is empty or contains a brace."""
        if not name or set(name) & set("{}"):
            raise ConfigError(f"the hash name {name!r} is invalid: give a name without braces")
        self._connect, self._values = connect, name
        self._lives, self._stored = f"{{{name}}}:lives", f"{{{name}}}:stored"
        self._client: Any = None

    def open(self) -> None:
        """Connect. Raises `ConfigError` if the client decodes stored values to text."""
        self._client = self._connect()
        if self._client.get_connection_kwargs().get("decode_responses"):
            raise ConfigError("values are MessagePack: connect to Redis without decode_responses")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def begin_life(self, task: str) -> tuple[Owner, Sequence[str]]:
        with self._client.pipeline(transaction=True) as together:
            together.hincrby(self._lives, task, 1)
            together.hget(self._stored, task)
            life, stored = together.execute()
        return Owner(task, life), [] if stored is None else msgspec.msgpack.decode(stored)

    def multi_get(self, keys: Sequence[str]) -> Sequence[Any]:
        found: list[bytes | None] = []
        for start in range(0, len(keys), _AT_ONCE):
            found += self._client.hmget(self._values, keys[start : start + _AT_ONCE])
        return [None if value is None else msgspec.msgpack.decode(value) for value in found]

    def multi_put(self, owner: Owner, keys: Sequence[str], values: Sequence[Any]) -> None:
        rows = [
            each for key, value in zip(keys, values, strict=True) for each in (key, _encode(value))
        ]
        names = self._lives, self._stored, self._values
        if not self._client.eval(_PUT, len(names), *names, *owner, _encode(list(keys)), *rows):
            raise FencedError(
                f"another process has taken over {owner.task}: nothing was written to "
                f"{self._values!r}"
            )


_encode = msgspec.msgpack.encode
_AT_ONCE: Final = 10_000
"""Most keys of a query."""
_PUT: Final = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
for at = 4, #ARGV, 1000 do
  redis.call('HSET', KEYS[3], unpack(ARGV, at, math.min(at + 999, #ARGV)))
end
return 1
"""
"""The script runs atomically. No new owner can register during it, and no reader sees a partial
write.

It passes 1,000 arguments at a time because Lua's `unpack` is limited to a few thousand.
"""

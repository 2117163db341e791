"""A non-blocking registry client, which returns cached results and runs other queries on a thread.

confluent-kafka's serdes call it on the event loop, while they read a message. The first call for a
schema raises `NotYetError`, and so do further calls until the result is available. Then the message
is retried and succeeds.
"""

import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from confluent_kafka.schema_registry import (
    RegisteredSchema,
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
)

from kstorm.errors import ConfigError, NotYetError

_TIMEOUT_SECS: Final = 10
_PAUSE_SECS: Final = 1.0
_ANSWERS: Final = (404, 409, 422)
"""Prefixes of registry error codes that are definite results: 40403 means "no such schema"."""


class NonBlockingRegistryClient(SchemaRegistryClient):
    """A `SchemaRegistryClient` for one task's serde. It must be closed."""

    def __init__(self, url: str, shown: str, properties: Mapping[str, Any]) -> None:
        """`shown`: the address for messages."""
        defaults = {"timeout": _TIMEOUT_SECS, "max.retries": 0}
        try:
            super().__init__({**defaults, **properties, "url": url})
        except (OSError, TypeError, ValueError) as error:
            raise ConfigError(f"properties of the schema registry at {shown}: {error}") from None
        self._where = shown
        self._answers: dict[Hashable, Any] = {}
        self._questions: dict[Hashable, Future[Any]] = {}
        self._problem: str | None = None
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="schema-registry")

    def close(self) -> None:
        """Stop querying. A pending query delays this by up to its timeout."""
        self._closing.set()
        self._thread.shutdown(cancel_futures=True)
        super().close()

    def get_schema(
        self,
        schema_id: int,
        subject_name: str | None = None,
        fmt: str | None = None,
        reference_format: str | None = None,
    ) -> Schema:
        found: Schema = self._answer(
            f"schema {schema_id}", super().get_schema, schema_id, subject_name, fmt
        )
        return found

    def get_schema_by_guid(self, guid: str, fmt: str | None = None) -> Schema:
        found: Schema = self._answer(f"schema {guid}", super().get_schema_by_guid, guid, fmt)
        return found

    def get_version(
        self,
        subject_name: str,
        version: Any = "latest",
        deleted: bool = False,
        fmt: str | None = None,
    ) -> RegisteredSchema:
        what = f"version {version} of {subject_name!r}"
        found: RegisteredSchema = self._answer(
            what, super().get_version, subject_name, version, deleted, fmt
        )
        return found

    def get_latest_version(self, subject_name: str, fmt: str | None = None) -> RegisteredSchema:
        what = f"the latest version of {subject_name!r}"
        found: RegisteredSchema = self._answer(what, super().get_latest_version, subject_name, fmt)
        return found

    def register_schema_full_response(
        self, subject_name: str, schema: Schema, normalize_schemas: bool = False
    ) -> RegisteredSchema:
        ask = super().register_schema_full_response
        found: RegisteredSchema = self._answer(
            f"the id of {subject_name!r}", ask, subject_name, schema, normalize_schemas
        )
        return found

    def lookup_schema(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
        fmt: str | None = None,
        deleted: bool = False,
    ) -> RegisteredSchema:
        what = f"the schema of {subject_name!r}"
        asked = (subject_name, schema, normalize_schemas, fmt, deleted)
        found: RegisteredSchema = self._answer(what, super().lookup_schema, *asked)
        return found

    def _answer(self, what: str, ask: Callable[..., Any], *arguments: Any) -> Any:
        """Return a result of the registry, which is cached.

        Raises `NotYetError` while it is not available, and `ValueError` if the registry rejects the
        query.
        """
        question = (ask.__name__, arguments)
        if question in self._answers:
            return self._answers[question]
        asked = self._questions.get(question)
        if asked is None:
            asked = self._questions[question] = self._thread.submit(self._ask, what, ask, arguments)
        if not asked.done():
            raise NotYetError(
                self._problem or f"the schema registry at {self._where} has not yet returned {what}"
            )
        del self._questions[question]
        answer = self._answers[question] = asked.result()
        return answer

    def _ask(self, what: str, ask: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            answer = ask(*arguments)
        except SchemaRegistryError as error:
            if _is_answer(error):
                self._problem = None
                raise ValueError(
                    f"the schema registry at {self._where} refused to return {what}: "
                    f"{error.error_message}"
                ) from None
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - no connection, HTTP or JSON: retry the query
            reason = f"{type(error).__name__}: {error}"
        else:
            self._problem = None
            return answer
        self._problem = f"the schema registry at {self._where} did not return {what}: {reason}"
        # Throttle, because the next attempt follows immediately.
        self._closing.wait(_PAUSE_SECS)
        raise NotYetError(self._problem)


def _is_answer(error: SchemaRegistryError) -> bool:
    """Return True if the registry itself rejects the query.

    A plain 404 comes from another server at this address.
    """
    code = error.error_code
    return isinstance(code, int) and (code == 409 or code // 100 in _ANSWERS)

"""Consume a RabbitMQ queue with pika, on the service's event loop. A message is open from its
delivery to its ack.

pika's asyncio connection has no waiting calls. An ack is written to a buffer, and a delivery
arrives as a callback. When the connection or its channel ends, its `_Session` ends too, with all
messages that it delivered. A delivery tag is only valid on the channel that delivered the message.
"""

import asyncio
import logging
import random
import ssl
from collections import deque
from contextlib import suppress
from itertools import count
from typing import Any, Final

from pika import ConnectionParameters, PlainCredentials, SSLOptions
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.exceptions import AMQPError

from kstorm.errors import BrokerError, ConfigError, KstormError
from kstorm.queues.ports import QueueMessage, QueueMessageId
from kstorm.queues.rabbitmq_config import RabbitMQConfig, RabbitMQTls
from kstorm.runtime.base import secrets

log = logging.getLogger(__name__)
# pika logs ten lines for an error that `problem` describes in one.
logging.getLogger("pika").setLevel(logging.CRITICAL)

_CLOSE_SECS: Final = 5.0


class RabbitMQReader:
    """Reads a RabbitMQ queue, with at most `prefetch` open messages. Must be created on the event
    loop's thread."""

    def __init__(self, config: RabbitMQConfig, prefetch: int) -> None:
        self.config, self.prefetch = config, prefetch
        self._loop = asyncio.get_running_loop()
        self._tls = None if config.tls is None else _tls_context(config.tls)
        self._messages: deque[QueueMessage] = deque()
        self._numbers = count()
        self._active = False
        self._closing = False
        self._session: _Session | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._failures = 0
        self._problem: KstormError | None = None

    def start(self) -> None:
        self._active = True
        if self._session is not None:
            self._session.consume()
        elif self._timer is None:
            self._connect()

    def pause(self) -> None:
        self._active = False
        if self._session is not None:
            self._session.cancel()
        while (message := self.take()) is not None:
            self.put_back(message.id)

    def take(self) -> QueueMessage | None:
        return self._messages.popleft() if self._messages else None

    def ack(self, id: QueueMessageId) -> None:
        channel = self._channel_of(id)
        if channel is not None:
            channel.basic_ack(id.tag)

    def put_back(self, id: QueueMessageId) -> None:
        channel = self._channel_of(id)
        if channel is not None:
            channel.basic_nack(id.tag, requeue=True)

    def problem(self) -> KstormError | None:
        return self._problem

    @property
    def connections(self) -> int:
        return int(self._session is not None and self._session.channel is not None)

    async def close(self) -> None:
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        session = self._session
        if session is not None:
            session.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECS):
                    await session.ended.wait()

    # Callbacks of the sessions.

    def ready(self, session: "_Session") -> None:
        """The session can consume now."""
        if session is self._session and self._active:
            session.consume()

    def consuming(self, session: "_Session") -> None:
        """The queue exists and the user may read it."""
        if session is self._session:
            if self._problem is not None:
                log.warning(
                    "the queue %r is read from RabbitMQ at %s again",
                    self.config.queue,
                    session.address,
                )
            self._failures, self._problem = 0, None

    def came(self, session: "_Session", tag: int, value: bytes) -> None:
        if session is self._session:
            self._messages.append(QueueMessage(QueueMessageId(session.number, tag), value))

    def lost(self, session: "_Session", reason: str) -> None:
        """The session has ended. Its messages are queued again, including those that were not taken
        yet."""
        if session is not self._session:
            return
        self._session = None
        self._messages.clear()
        if not self._closing:
            self._failed(
                BrokerError(
                    f"the queue {self.config.queue!r} cannot be read from RabbitMQ at "
                    f"{session.address}, virtual host {self.config.virtual_host!r}, as user "
                    f"{self.config.username!r}: {reason}; the next attempt follows within "
                    f"{self.config.reconnect_delay_max_ms / 1000:g} s"
                )
            )

    # Connecting.

    def _connect(self) -> None:
        self._timer = None
        number = next(self._numbers)
        addresses = self.config.addresses
        host, port = addresses[number % len(addresses)]
        try:
            parameters = self._parameters(host, port)
        except ConfigError as error:
            # The password file is missing, perhaps only temporarily.
            self._failed(error)
            return
        self._session = _Session(self, number, f"{host}:{port}", parameters, self._loop)

    def _failed(self, problem: KstormError) -> None:
        self._problem = problem
        self._failures += 1
        self._timer = self._loop.call_later(
            self.config.delay(self._failures, random.random()), self._connect
        )

    def _parameters(self, host: str, port: int) -> Any:
        config = self.config
        password = config.password
        if config.password_file is not None:
            password = secrets.read_secret_file("password_file", config.password_file)
        return ConnectionParameters(
            host=host,
            port=port,
            virtual_host=config.virtual_host,
            credentials=PlainCredentials(config.username, password, erase_on_connect=True),
            ssl_options=None if self._tls is None else SSLOptions(self._tls, host),
            heartbeat=config.heartbeat_secs,
            socket_timeout=config.connection_timeout_secs,
            stack_timeout=config.connection_timeout_secs,
            connection_attempts=1,
            client_properties={"connection_name": "kstorm"},
        )

    def _channel_of(self, id: QueueMessageId) -> Any:
        """Return the channel that delivered a message, if it is still open."""
        session = self._session
        if session is None or session.number != id.connection or session.channel is None:
            return None
        return session.channel if session.channel.is_open else None


class _Session:
    """One connection with one channel. Reports its end to the reader once."""

    def __init__(
        self,
        reader: RabbitMQReader,
        number: int,
        address: str,
        parameters: Any,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.number, self.address = number, address
        self.channel: Any = None
        """Set when the channel is open."""
        self.ended = asyncio.Event()
        self._reader = reader
        self._lost = False
        self._consumer: str | None = None
        self._connection: Any = AsyncioConnection(
            parameters,
            on_open_callback=self._connected,
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
            custom_ioloop=loop,
        )

    def consume(self) -> None:
        """Start consuming if the channel is open."""
        if self.channel is not None and self.channel.is_open and self._consumer is None:
            self._consumer = self.channel.basic_consume(
                self._reader.config.queue,
                self._delivered,
                callback=lambda _frame: self._reader.consuming(self),
            )

    def cancel(self) -> None:
        """Stop consuming. pika rejects the messages that are still in flight, so that they are
        queued again."""
        if self._consumer is not None and self.channel.is_open:
            self.channel.basic_cancel(self._consumer, callback=lambda _frame: None)
        self._consumer = None

    def close(self) -> None:
        """Start closing the connection. `ended` is set when it is closed."""
        if not (self._connection.is_closing or self._connection.is_closed):
            self._connection.close()

    def _connected(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._opened)

    def _opened(self, channel: Any) -> None:
        channel.add_on_close_callback(lambda _channel, error: self._give_up(_text(error)))
        channel.add_on_cancel_callback(
            lambda _frame: self._give_up("the queue was deleted, or its node is gone")
        )
        channel.basic_qos(
            prefetch_count=self._reader.prefetch, callback=lambda _frame: self._limited(channel)
        )

    def _limited(self, channel: Any) -> None:
        self.channel = channel
        self._reader.ready(self)

    def _delivered(self, _channel: Any, delivery: Any, _properties: Any, body: bytes) -> None:
        self._reader.came(self, delivery.delivery_tag, body)

    def _ended(self, _connection: Any, error: BaseException) -> None:
        self.ended.set()
        self._give_up(_text(error))

    def _give_up(self, reason: str) -> None:
        if not self._lost:
            self._lost = True
            self.close()
            self._reader.lost(self, reason)


def _tls_context(tls: RabbitMQTls) -> ssl.SSLContext:
    name, file = "ca_file", tls.ca_file
    try:
        context = ssl.create_default_context(cafile=file)
        if tls.certificate_file is not None:
            name, file = "certificate_file", tls.certificate_file
            context.load_cert_chain(tls.certificate_file, tls.key_file)
    except OSError as error:
        # SSLError is a subclass
        raise ConfigError(
            f"{name} is {file!r}, which cannot be used: {error.strerror or error}"
        ) from None
    return context


def _text(error: BaseException) -> str:
    """Return the innermost reason. pika nests exceptions while it tries the addresses of a host."""
    inner: Any = error
    while True:
        attempts = getattr(inner, "exceptions", None)
        deeper = attempts[-1] if attempts else getattr(inner, "exception", None)
        if (
            deeper is None
            and isinstance(inner, AMQPError)
            and inner.args
            and isinstance(inner.args[0], BaseException)
        ):
            deeper = inner.args[0]
        if deeper is None:
            break
        inner = deeper
    return f"{type(inner).__name__}: {str(inner) or 'no reason given'}"

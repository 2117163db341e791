"""Find out quickly that a server cannot be reached.

Kafka's and ZooKeeper's clients retry a refused connection or an unknown host until their patience
is over. A command need not wait for that.
"""

import queue
import socket
import threading
import time
from collections.abc import Sequence
from typing import Final

_WITHIN_SECS: Final = 2.0

Address = tuple[str, int]


def why_unreachable(addresses: Sequence[Address], within: float = _WITHIN_SECS) -> str:
    """Return why no address can be connected to, or "" if one can, or one has not answered in
    time.

    A slow server is not an error here: the client has more patience.
    """
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    for address in addresses:
        # A daemon, because the look-up of a name cannot be interrupted.
        threading.Thread(target=_try, args=(address, within, answers), daemon=True).start()
    deadline, found = time.monotonic() + within, list[str]()
    for _ in addresses:
        try:
            why = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return ""
        if not why:
            return ""
        found.append(why)
    return "; ".join(sorted(found))


def parse_addresses(text: str, port: int) -> Sequence[Address]:
    """Parse `host:port,…`. `port` is the default. Addresses that are malformed are left out."""
    found = []
    for each in text.split(","):
        host, _, number = each.rpartition("://")[2].strip().rpartition(":")
        if not host or host.endswith(":"):
            host, number = each.rpartition("://")[2].strip(), ""
        if (number.isdecimal() and int(number) < 1 << 16) or not number:
            found.append((host.strip("[]"), int(number or port)))
    return [address for address in found if address[0]]


def _try(address: Address, within: float, answers: "queue.SimpleQueue[str]") -> None:
    host, port = address
    try:
        socket.create_connection(address, within).close()
    except TimeoutError:
        answers.put("")
    except socket.gaierror as error:
        answers.put(f"{host}: {error.strerror}")
    except (OSError, UnicodeError) as error:
        answers.put(f"{host}:{port}: {getattr(error, 'strerror', None) or error}")
    else:
        answers.put("")

"""Find out why a reachable ZooKeeper cannot be used: TLS problems of the server or of this client.

kazoo reports all of them as a lost connection and retries. So after some time this module queries
the servers directly, with `srvr`. Any response is sufficient, even one that rejects the command.
"""

import socket
import ssl
import time
from typing import Final

from kazoo.hosts import collect_hosts

from kstorm.errors import ConfigError
from kstorm.runtime.base.zookeeper_tls import VARIABLE, ZooKeeperTls

# It has five bytes, because a server with TLS would wait for more if it had fewer.
_QUESTION: Final = b"srvr\n"
_ALERT: Final = b"\x15\x03"
_ANOTHER_NAME: Final = (62, 64)
"""OpenSSL's codes for a certificate of another host name or address."""
_Address = tuple[str, int]


def connection_problem(connect: str, tls: ZooKeeperTls | None, patience: float) -> str:
    """Return what prevents a client with this `tls` from connecting, and the remedy. Return "" if
    no reason is found.

    Waits up to `patience` seconds for each response. After that time no further server is queried.
    """
    deadline = time.monotonic() + patience
    servers, _ = collect_hosts(connect)
    for server in servers:
        found = _without_tls(server, patience) if tls is None else _with_tls(server, tls, patience)
        if found:
            return (
                found if len(servers) == 1 else f"{found} (this concerns {server[0]}:{server[1]})"
            )
        if time.monotonic() > deadline:
            break
    return ""


def _with_tls(server: _Address, tls: ZooKeeperTls, patience: float) -> str:
    try:
        with tls.connect(server, server[0], patience) as connection:
            # A rejected client certificate is only noticed here.
            _ask(connection)
    except ConfigError as error:
        return str(error)
    except ssl.SSLCertVerificationError as error:
        return _not_trusted(error, tls)
    except ssl.SSLError as error:
        if "ALERT" in str(error.reason):
            return _not_accepted(error, tls)
    except ConnectionResetError:
        pass
    except OSError:
        # no server, or no response
        return ""
    else:
        return ""
    if not _is_answer(_ask_in_plain(server, patience)):
        return ""
    return (
        f"it does not use TLS at that port: give its secureClientPort, or leave {VARIABLE} out "
        "(only for ZkHosts: tls=False)"
    )


def _without_tls(server: _Address, patience: float) -> str:
    answer = _ask_in_plain(server, patience)
    if answer is None or _is_answer(answer) or not _speaks_tls(server, patience):
        return ""
    return f"it uses TLS at that port: set {VARIABLE}, or give a port without TLS"


def _not_trusted(error: ssl.SSLCertVerificationError, tls: ZooKeeperTls) -> str:
    if error.verify_code in _ANOTHER_NAME:
        return (
            f"its certificate is for another name: {error.verify_message.rstrip('.')}; use the "
            f"name in its certificate, or set check_hostname to false in {VARIABLE}"
        )
    by = (
        f"ca {tls.ca!r} of {VARIABLE}"
        if tls.ca
        else f"the authorities of the system, because {VARIABLE} has no ca"
    )
    return f"its certificate is not trusted: {error.verify_message}; it was checked against {by}"


def _not_accepted(error: ssl.SSLError, tls: ZooKeeperTls) -> str:
    why = str(error.reason).partition("ALERT_")[2].replace("_", " ").lower()
    if "certificate" not in why and "unknown ca" not in why:
        return f"it ended the TLS handshake ({why}): its log has the reason"
    if not tls.certfile:
        return (
            f"it requires a client certificate ({why}): give one as certfile and keyfile in "
            f"{VARIABLE}"
        )
    return (
        f"it does not accept the certificate {tls.certfile!r} ({why}): is it valid, and does the "
        f"server's ssl.trustStore have the authority that signed it? Check certfile in {VARIABLE}"
    )


def _ask_in_plain(server: _Address, patience: float) -> bytes | None:
    """Return the response, or b"" if the server closes the connection. Return None if it cannot be
    reached in time."""
    try:
        with socket.create_connection(server, patience) as connection:
            return _ask(connection)
    except ConnectionResetError:
        return b""
    except OSError:
        return None


def _ask(connection: socket.socket) -> bytes:
    connection.sendall(_QUESTION)
    return connection.recv(len(_QUESTION))


def _is_answer(answer: bytes | None) -> bool:
    return answer is not None and answer != b"" and not answer.startswith(_ALERT)


def _speaks_tls(server: _Address, patience: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The certificate does not matter, because nothing is sent and no response is used.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(server, patience) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:
        return "ALERT" in str(error.reason)
    except OSError:
        return False

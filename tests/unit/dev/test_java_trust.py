"""The certificates that the bundled Java trusts."""

import ssl
import subprocess
from pathlib import Path

import pytest

from kstorm.dev import java_trust
from kstorm.dev.java import find_java
from kstorm.dev.java_trust import trust_options


def test_java_reads_every_certificate_of_the_machine(cache: Path) -> None:
    """Java's key tool opens the store with its password, and counts the certificates of the
    machine's bundle."""
    bundle = ssl.get_default_verify_paths().cafile
    if bundle is None:
        pytest.skip("this machine has no bundle of certificates at Python's default place")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(bundle)
    store, password = (option.split("=")[1] for option in trust_options())
    assert cache in Path(store).parents
    key_tool = [str(find_java().executable), "-m", "java.base/sun.security.tools.keytool.Main"]
    command = [*key_tool, "-list", "-keystore", store, "-storepass", password]
    listing = subprocess.run(command, capture_output=True, text=True, check=True)
    assert listing.stdout.count("trustedCertEntry") == len(context.get_ca_certs()) > 0


def test_without_a_bundle_java_keeps_its_own_certificates(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    monkeypatch.setattr(java_trust, "_BUNDLES", ())
    assert trust_options() == []

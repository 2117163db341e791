"""Stored offsets read with TLS from a ZooKeeper that requires a certificate, and explanations of
failures."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm_pipeline.__main__ import main
from kstorm_pipeline.audit.ranges import SpoutReading
from kstorm_pipeline.audit.stored_offsets import stored_offsets
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.zookeeper_tls import ZooKeeperTls
from tests.integration.certificates import Authority, locked_key

READING = SpoutReading("/kstorm/words", "sentences", 0)


class Secured:
    """A ZooKeeper with a stored offset."""

    def __init__(self, directory: Path) -> None:
        files = directory / "audited-tls"
        authority, stranger = Authority(files, "authority"), Authority(files, "stranger")
        self.tls = ZooKeeperTls(
            ca=str(authority.certificate), certfile=str(authority.sign("client"))
        )
        self.another = ZooKeeperTls(ca=str(stranger.certificate), certfile=self.tls.certfile)
        self.server = EmbeddedZooKeeper(
            directory,
            name="audited-tls",
            certificate=authority.sign("server"),
            authority=authority.certificate,
        )

    def store(self) -> None:
        """Write the offset, without TLS."""
        client = KazooClient(self.server.connect)
        client.start(30)
        client.create(
            f"{READING.node}/partition_0", json.dumps({"offset": 7}).encode(), makepath=True
        )
        client.stop()
        client.close()


@pytest.fixture(scope="module")
def secured(servers_directory: Path) -> Iterator[Secured]:
    """One server for the tests of this module."""
    made = Secured(servers_directory)
    with made.server:
        made.store()
        yield made


@pytest.mark.slow
def test_stored_offsets_are_read_with_tls(secured: Secured) -> None:
    assert stored_offsets(secured.server.secure, [READING], secured.tls) == {READING: 7}
    assert stored_offsets(secured.server.connect, [READING]) == {READING: 7}


@pytest.mark.long
def test_tls_failure_is_explained(secured: Secured) -> None:
    """In one line with the address and the remedy."""
    at = secured.server
    for hosts, tls, why in (
        (
            at.secure,
            secured.another,
            "with TLS: its certificate is not trusted: unable to get local issuer certificate",
        ),
        (at.secure.replace("127.0.0.1", "127.0.0.2"), secured.tls, "with TLS: Connection refused"),
        (at.secure, None, "without TLS: "),
        (at.connect, secured.tls, "with TLS: "),
    ):
        with pytest.raises(PipelineError) as caught:
            stored_offsets(hosts, [READING], tls)
        told = str(caught.value)
        assert told.startswith(
            f"the stored offsets cannot be read from ZooKeeper at {hosts}, {why}"
        )
        assert told.endswith(
            "Correct --zookeeper and --zookeeper-tls, or check that ZooKeeper is up"
        )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '{"ca": "/no/such/ca.crt"}',
            "--zookeeper-tls has ca '/no/such/ca.crt', which cannot be used: No such file",
        ),
        (
            '{"keyfile_password": "canary-Pa55"}',
            "cannot be read (Object contains unknown field `keyfile_password`): write e.g.",
        ),
        ('{"check_hostname": "canary-Pa55"}', "Expected `bool`, got `str` - at `$.check_hostname`"),
        ("canary-Pa55", "--zookeeper-tls (KSTORM_PIPELINE_ZOOKEEPER_TLS) cannot be read"),
    ],
)
def test_invalid_tls_setting_is_explained_in_one_line(
    text: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Without showing a password in it."""
    monkeypatch.setenv("KSTORM_PIPELINE_ZOOKEEPER_TLS", text)
    assert (
        main(
            [
                "audit",
                "--tables",
                str(tmp_path),
                "--topology",
                "words",
                "--bootstrap-servers",
                "127.0.0.1:1",
            ]
        )
        == 2
    )
    told = capsys.readouterr()
    assert says in told.err
    assert len(told.err.strip().splitlines()) == 1
    assert "canary" not in told.out + told.err


@pytest.mark.slow
def test_key_with_another_password_is_refused(secured: Secured, tmp_path: Path) -> None:
    """Without a prompt, and without showing the password."""
    (tmp_path / "password").write_text("canary-Pa55")
    key = locked_key(secured.tls.certfile, "right-Pa55", tmp_path / "locked.key")
    for password_file, says in (
        ("", "its key has a password: name a file with it in keyfile_password_file"),
        (str(tmp_path / "password"), "and is keyfile_password_file right"),
    ):
        tls = ZooKeeperTls(
            certfile=secured.tls.certfile, keyfile=str(key), keyfile_password_file=password_file
        )
        with pytest.raises(PipelineError, match=says) as caught:
            tls.context()
        assert "canary" not in str(caught.value)

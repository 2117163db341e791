"""A canary in every input that may hold a secret, each broken in another way. No output may contain
it.

`test_security.py` and `tests/pipeline/test_secrets.py` check the outputs without errors.
`tests/chart/test_secrets.py` checks the chart.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kstorm.cli.__main__ import main
from kstorm_pipeline.__main__ import main as pipeline
from tests.integration.service import start_service
from tests.kubernetes_stub import KubernetesStub

CANARY = "canary-Pa55"
UNREADABLE = {
    "KSTORM_KAFKA_PROPERTIES": (
        f'{{"sasl.password": "{CANARY}',
        f'{{"sasl.password": ["{CANARY}"]}}',
        CANARY,
    ),
    "KSTORM_ZOOKEEPER_AUTH": (
        CANARY,
        f"digest:{CANARY}",
        f"plain:her:{CANARY}",
        f"digest:her:{CANARY} two",
    ),
    "KSTORM_STATE_TOKEN": (CANARY, f"{CANARY} and more"),
}
"""Invalid settings, as a variable and as a file."""
UNUSABLE = (
    {"sasl.pasword": CANARY},
    {"security.protocol": "ssl", "ssl.key.pem": CANARY},
    {"security.protocol": "ssl", "ssl.ca.pem": CANARY},
)
"""Settings that librdkafka rejects when a client is created."""
ASK_KAFKA = (
    ("produce", "words"),
    ("consume", "words"),
    ("prepare",),
    ("probe", "--source", "lines", "--sink", "words"),
)
ASK_ZOOKEEPER = (
    ("activate", "words"),
    ("deactivate", "words"),
    ("drain", "words"),
    ("offsets", "show", "--topology", "tests.integration.topologies:wordcount"),
)
ASK_KUBERNETES = (
    ("topology", "list"),
    ("topology", "status", "words"),
    ("scale", "words", "split=1"),
    ("restart", "words"),
    ("logs", "words"),
    ("kill", "words", "--yes"),
    ("state", "get", "words", "count", "the"),
)


def given(tmp_path: Path, variable: str, text: str) -> Iterator[dict[str, str]]:
    """Yield the setting as a variable and as a file."""
    yield {variable: text}
    file = tmp_path / "mounted"
    file.write_text(text)
    yield {f"{variable}_FILE": str(file)}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set the required variables without a login. No server listens at these addresses."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "KAFKA_PROPERTIES",
        "KAFKA_PROPERTIES_FILE",
        "ZOOKEEPER_AUTH",
        "ZOOKEEPER_AUTH_FILE",
    ):
        monkeypatch.delenv(f"KSTORM_{name}", raising=False)
    monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("KSTORM_ZOOKEEPER", "127.0.0.1:1")
    monkeypatch.setenv("KSTORM_TOPOLOGY", "tests.integration.topologies:wordcount")
    monkeypatch.setenv("KSTORM_TEST_PREFIX", "unused")


def sung(capfd: pytest.CaptureFixture[str], words: tuple[str, ...]) -> str:
    """Return the whole output of a `kstorm` command, which ends in one line."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    told = capfd.readouterr()
    assert ended.value.code == 2, (words, told)
    assert "Traceback" not in told.err
    assert told.err.startswith("kstorm: "), (words, told.err)
    return told.out + told.err


@pytest.mark.slow
@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("words", [*ASK_KAFKA, *ASK_ZOOKEEPER], ids=" ".join)
def test_no_command_prints_a_secret(
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for variable, texts in UNREADABLE.items():
        for text in texts:
            for setting in given(tmp_path, variable, text):
                with monkeypatch.context() as patch:
                    for name, value in setting.items():
                        patch.setenv(name, value)
                    assert CANARY not in sung(capfd, words)
    for properties in UNUSABLE if words in ASK_KAFKA else ():
        with monkeypatch.context() as patch:
            patch.setenv("KSTORM_KAFKA_PROPERTIES", json.dumps(properties))
            assert CANARY not in sung(capfd, words)


def wrong_keys(directory: Path) -> Iterator[dict[str, str]]:
    """Yield certificates for ZooKeeper with a password that is wrong, not text, or at a wrong
    place."""
    key, certificate, password = (
        directory / name for name in ("zookeeper.key", "zookeeper.crt", "password")
    )
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-passout", "pass:another", "-subj", "/CN=her", "-days", "1",
         "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )  # fmt: skip
    tls = {"certfile": str(certificate), "keyfile": str(key)}
    for content in (CANARY.encode(), CANARY.encode() * 500, CANARY.encode() + b"\xff"):
        password.write_bytes(content)
        yield {"KSTORM_ZOOKEEPER_TLS": json.dumps({**tls, "keyfile_password_file": str(password)})}
    yield {"KSTORM_ZOOKEEPER_TLS": json.dumps({**tls, "keyfile_password": CANARY})}
    yield {"KSTORM_ZOOKEEPER_TLS": json.dumps({**tls, "keyfile_password_file": [CANARY]})}
    yield {"KSTORM_ZOOKEEPER_TLS": CANARY}


@pytest.mark.slow
@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("words", [("prepare",), *ASK_ZOOKEEPER], ids=" ".join)
def test_no_command_prints_the_password_of_its_key(
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The password is wrong. The command does not prompt for it."""
    for setting in wrong_keys(tmp_path):
        with monkeypatch.context() as patch:
            for name, value in setting.items():
                patch.setenv(name, value)
            told = sung(capfd, words)
            assert CANARY not in told
            assert "KSTORM_ZOOKEEPER_TLS" in told


@pytest.mark.slow
@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("words", ASK_KUBERNETES, ids=" ".join)
def test_no_command_prints_the_token_of_its_cluster(
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The API server rejects the token, or the kubeconfig is broken after it."""
    with KubernetesStub() as stub:
        stub.status = 401
        file = stub.write_kubeconfig(tmp_path / "config")
        config = json.loads(file.read_text())
        config["users"][0]["user"]["token"] = CANARY
        monkeypatch.setenv("KUBECONFIG", str(file))
        for text in (
            json.dumps(config),
            json.dumps(config).replace(CANARY, f"{CANARY}\\"),
            f"users: [{{token: {CANARY}",
        ):
            file.write_text(text)
            assert CANARY not in sung(capfd, words)


@pytest.mark.parametrize(
    "kind",
    [
        "spout",
        pytest.param("bolt", marks=pytest.mark.slow),
        pytest.param("acker", marks=pytest.mark.slow),
    ],
)
def test_no_service_prints_a_secret(kind: str, tmp_path: Path) -> None:
    texts = [(variable, text) for variable, texts in UNREADABLE.items() for text in texts[:2]]
    broken = [setting for variable, text in texts for setting in given(tmp_path, variable, text)][
        ::3
    ]
    component: Mapping[str, str] = {
        "spout": {"KSTORM_COMPONENT": "sentences"},
        "bolt": {"KSTORM_COMPONENT": "split"},
    }.get(kind, {})
    broken.append(next(wrong_keys(tmp_path)))
    for setting in (
        *broken,
        *({"KSTORM_KAFKA_PROPERTIES": json.dumps(each)} for each in UNUSABLE[:2]),
    ):
        ended = start_service(kind, tmp_path, **component, **setting)
        assert ended.returncode == 2, (setting, ended.stderr)
        assert CANARY not in ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["KAFKA_OPTIONS", "SPARK_CONF", "SCHEMA_REGISTRY_OPTIONS"])
def test_no_pipeline_prints_a_secret(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It cannot read these settings, or must not take them from a file."""
    texts = [f'{{"a.password": "{CANARY}', f'["{CANARY}"]', CANARY]
    for text in texts:
        for setting in given(tmp_path, f"KSTORM_PIPELINE_{name}", text):
            with monkeypatch.context() as patch:
                for variable, value in setting.items():
                    patch.setenv(variable, value)
                assert pipeline(["summary", "--tables", str(tmp_path)]) == 2
                told = capfd.readouterr()
                assert CANARY not in told.out + told.err

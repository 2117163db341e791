"""The cluster id of a new embedded Kafka."""

import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from kstorm.dev import server_settings


def test_cluster_id_never_starts_with_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's tool would parse it as an option, and one start in 64 would fail."""
    dashed = uuid.UUID(bytes=urlsafe_b64decode("-AAAAAAAAAAAAAAAAAAAAA=="))
    good = uuid.UUID(int=1)
    answers = iter([dashed, dashed, good])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(answers))
    assert server_settings.new_cluster_id() == urlsafe_b64encode(good.bytes).decode().rstrip("=")

"""MinIO, an object store with the S3 API, as a separate server. Go builds it from its module, once.

It stores each object as a folder on disk, so tests see an object immediately, without a request.
"""

from collections.abc import Mapping
from pathlib import Path

from kstorm.dev.free_ports import reserve_port
from kstorm.dev.processes import ManagedProcess
from tests.go_program import go_program
from tests.go_server import GoServer

BUCKET = "tables"
_VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"


class ObjectStore(GoServer):
    """A server on 127.0.0.1 with one empty bucket. A context manager."""

    def __init__(self, workdir: Path) -> None:
        self._port = reserve_port()
        self._drive = workdir / "drive"
        (self._drive / BUCKET).mkdir(parents=True)
        login = {"MINIO_ROOT_USER": "kstorm", "MINIO_ROOT_PASSWORD": "not-a-secret"}
        minio = go_program("github.com/minio/minio", _VERSION)
        command: list[str | Path] = [
            minio,
            "server",
            "--quiet",
            "--address",
            f"127.0.0.1:{self._port}",
            self._drive,
        ]
        process = ManagedProcess("minio", command, workdir=workdir, environment=login)
        super().__init__(process, f"http://127.0.0.1:{self._port}/minio/health/ready")

    @property
    def login(self) -> Mapping[str, str]:
        """Return the credentials for the environment of an S3 client."""
        return {"AWS_ACCESS_KEY_ID": "kstorm", "AWS_SECRET_ACCESS_KEY": "not-a-secret"}

    @property
    def spark_conf(self) -> Mapping[str, str]:
        """Return Spark's settings for it."""
        return {
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{self._port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }

    def names(self, folder: str) -> set[str]:
        path = self._drive / BUCKET / folder
        return {each.name for each in path.iterdir()} if path.is_dir() else set()

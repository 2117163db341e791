"""The version of kstorm in this environment, which an installer may replace while a command runs."""

from importlib.metadata import PackageNotFoundError, version

from kstorm.errors import LocalError


class InstalledVersion:
    """The version at the start of the command. New processes must not have another one."""

    def __init__(self) -> None:
        self._at_start = _installed()

    def check(self) -> None:
        """Raise `LocalError` if another version has been installed since the start."""
        now = _installed()
        if now != self._at_start:
            raise LocalError(
                f"kstorm {now} was installed while kstorm {self._at_start} ran: run the same command"
                " again, which continues with the same state"
            )


def _installed() -> str:
    try:
        return version("kstorm")
    except PackageNotFoundError:
        return "of another version"  # an installer is at work

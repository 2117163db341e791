"""Which dead letters an action means, as its form says."""

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from kstorm.cli.letters import read_letters
from kstorm.errors import ConfigError, ControlError
from kstorm.inspect.letters import Numbered
from kstorm.runtime.service.settings import Settings
from kstorm_ui.showing import Wanted
from kstorm_ui.sources.letters import letters_of


class Meant(msgspec.Struct, frozen=True):
    """One letter by its number, or all that a filter lets through and that had come when the form was shown."""

    number: int | None = None
    wanted: Wanted = Wanted()
    until: int | None = None
    """The number of the last that had come; None: all."""

    def __str__(self) -> str:
        if self.number is not None:
            return str(self.number)
        said = [
            f"{name} {text}" for name, text in msgspec.structs.asdict(self.wanted).items() if text
        ]
        return ", ".join(said) or "all"

    @property
    def fields(self) -> Mapping[str, str]:
        """For a link to its form, or hidden in it: what `meant_by` reads."""
        found = {} if self.number is None else {"number": str(self.number)}
        found |= {name: text for name, text in msgspec.structs.asdict(self.wanted).items() if text}
        return found if self.until is None else found | {"until": str(self.until)}

    @property
    def query(self) -> str:
        """Behind a path; empty if all are meant."""
        return f"?{urlencode(self.fields)}" if self.fields else ""

    def letters(self, settings: Settings, topology: str) -> list[Numbered]:
        """Those, without what their messages hold. Raises `ControlError` if there is none, `BrokerError` if Kafka does not say."""
        if self.number is not None:
            there = read_letters(settings, topology, self.number).letters
            found = [one for one in there if one.number == self.number]
        else:
            there = self.wanted.of(letters_of(settings, topology).letters)
            found = [one for one in there if self.until is None or one.number <= self.until]
        if not found:
            raise ControlError(
                f"{topology!r} has no dead letter that is meant ({self}): it was discarded, or replaced by a newer one"
            )
        return found

    def upto(self, number: int) -> "Meant":
        """The same, as far as had come by then."""
        return msgspec.structs.replace(self, until=number)


def meant_by(fields: Mapping[str, str]) -> Meant:
    """Reads what a form or a link says. Raises `ConfigError` on what is no number."""
    wanted = Wanted(**{name: fields.get(name, "") for name in Wanted.__struct_fields__})
    return Meant(_number(fields, "number"), wanted, _number(fields, "until"))


def _number(fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ConfigError(f"{name}: {text!r} is no number of a letter")
    return int(text)

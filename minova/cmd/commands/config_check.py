"""`minova-manage config check`: what each option of a nova.conf or minova.conf does here."""

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from oslo_config import cfg

from minova import conf as configuration
from minova.conf import foreign_options
from minova.conf.foreign_options import DEFAULT, Finding, Meaning, Registered

_TEXTS = {
    Meaning.OTHER_NAME: "has another name here: {}",
    Meaning.PROTECTS: "not served, and no service starts with it: {}",
    Meaning.NO_EFFECT: "no effect: {}",
}


def run(conf: cfg.ConfigOpts) -> bool:
    """Returns whether an option is anything but used. Raises InvalidConfiguration if a file cannot be read."""
    found = findings(map(Path, conf.command.files))
    for one in found:
        place = f"{one.file}: " if len(conf.command.files) > 1 else ""
        print(f"{place}{one.option}: {_text(one)}")
    return any(one.meaning is not Meaning.USED for one in found)


def findings(files: Iterable[Path]) -> list[Finding]:
    """Returns what each option of the files does. Raises InvalidConfiguration if a file cannot be read."""
    registered = Registered(_every_option(), tuple(configuration.older_names()), tuple(_of_libraries()))
    return list(foreign_options.findings(registered, files))


def _every_option() -> cfg.ConfigOpts:
    """Returns every option, with no value from a file."""
    made = configuration.new()
    made([], project="minova", default_config_files=[], default_config_dirs=[])
    return made


def _text(one: Finding) -> str:
    if one.meaning is Meaning.UNKNOWN:
        return f"unknown{f': did you mean {one.text}?' if one.text else ''}"
    return _TEXTS.get(one.meaning, "used").format(one.text)


def _of_libraries() -> Iterator[tuple[str, str]]:
    with warnings.catch_warnings(action="ignore"):  # libraries of theirs import eventlet, which says that it is old
        from keystonemiddleware import auth_token  # noqa: PLC0415 - most of a short command's time is imports
        from oslo_messaging import opts as messaging  # noqa: PLC0415 - the same

    for group, options in (*auth_token.list_opts(), *messaging.list_opts()):
        yield from ((getattr(group, "name", group) or DEFAULT, option.dest) for option in options)

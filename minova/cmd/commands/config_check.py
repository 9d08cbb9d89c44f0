"""`minova-manage config check`: what each option of a nova.conf or minova.conf does here."""

import contextlib
import logging
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from oslo_config import cfg

from minova import conf as configuration
from minova.conf import foreign_options
from minova.conf.foreign_options import DEFAULT, Meaning, OptionFinding, RegisteredOptions

_TEXTS = {
    Meaning.OTHER_NAME: "has another name here: {}",
    Meaning.PROTECTS: "not served, and no service starts with it: {}",
    Meaning.NO_EFFECT: "no effect: {}",
}


def run(conf: cfg.ConfigOpts) -> bool:
    """Returns whether an option is anything but used, or has a wrong value. Raises InvalidConfiguration if a file cannot be read."""
    files = list(map(Path, conf.command.files))
    option_findings = findings(files)
    wrong = {file: dict(_wrong_values(file)) for file in files}
    is_good = True
    for finding in option_findings:
        why = wrong[finding.file].get((finding.group, finding.name)) if finding.meaning is Meaning.USED else None
        place = f"{finding.file}: " if len(files) > 1 else ""
        print(
            f"{place}{finding.option}: {_text(finding)}{f', but no service starts with this value: {why}' if why else ''}"
        )
        is_good &= finding.meaning is Meaning.USED and why is None
    return not is_good


def findings(files: Iterable[Path]) -> list[OptionFinding]:
    """Returns what each option of the files does. Raises InvalidConfiguration if a file cannot be read."""
    registered = RegisteredOptions(_every_option(), tuple(configuration.older_names()), tuple(_of_libraries()))
    return list(foreign_options.findings(registered, files))


def _every_option(*files: Path) -> cfg.ConfigOpts:
    """Returns every option, with the values of these files alone."""
    conf = configuration.new()
    conf([], project="minova", default_config_files=list(map(str, files)), default_config_dirs=[])
    return conf


def _wrong_values(file: Path) -> Iterator[tuple[tuple[str, str], str]]:
    """Yields group and name, as the file has them, of each option whose value is none for it, and why."""
    written = {(group, name) for group, options in foreign_options.read(file).items() for name in options}
    with _no_warnings_of_older_names():
        for place, why in configuration.wrong_values(_every_option(file)):
            yield from ((name, why) for name in {place, *configuration.older_names_of(place)} & written)


@contextlib.contextmanager
def _no_warnings_of_older_names() -> Iterator[None]:
    logger = logging.getLogger("oslo_config.cfg")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _text(finding: OptionFinding) -> str:
    if finding.meaning is Meaning.UNKNOWN:
        return f"unknown{f': did you mean {finding.text}?' if finding.text else ''}"
    return _TEXTS.get(finding.meaning, "used").format(finding.text)


def options_of_libraries() -> Iterator[tuple[str, list[cfg.Opt]]]:
    """Yields the options that libraries register when they are used, by group."""
    with warnings.catch_warnings(action="ignore"):  # libraries of theirs import eventlet, which says that it is old
        from keystonemiddleware import auth_token  # noqa: PLC0415 - most of a short command's time is imports
        from oslo_messaging import opts as messaging  # noqa: PLC0415 - the same

    for group, options in (*auth_token.list_opts(), *messaging.list_opts()):
        yield getattr(group, "name", group) or DEFAULT, options


def _of_libraries() -> Iterator[tuple[str, str]]:
    """Yields group and name of their options, older names included."""
    for place, options in options_of_libraries():
        for option in options:
            yield place, option.dest
            yield from (
                (old.group or place, (old.name or option.dest).replace("-", "_")) for old in option.deprecated_opts
            )

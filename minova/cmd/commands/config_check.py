"""`minova-manage config check`: what each option of a nova.conf or minova.conf does here."""

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
    """Returns whether an option is anything but used. Raises InvalidConfiguration if a file cannot be read."""
    option_findings = findings(map(Path, conf.command.files))
    for finding in option_findings:
        place = f"{finding.file}: " if len(conf.command.files) > 1 else ""
        print(f"{place}{finding.option}: {_text(finding)}")
    return any(finding.meaning is not Meaning.USED for finding in option_findings)


def findings(files: Iterable[Path]) -> list[OptionFinding]:
    """Returns what each option of the files does. Raises InvalidConfiguration if a file cannot be read."""
    registered = RegisteredOptions(_every_option(), tuple(configuration.older_names()), tuple(_of_libraries()))
    return list(foreign_options.findings(registered, files))


def _every_option() -> cfg.ConfigOpts:
    """Returns every option, with no value from a file."""
    conf = configuration.new()
    conf([], project="minova", default_config_files=[], default_config_dirs=[])
    return conf


def _text(finding: OptionFinding) -> str:
    if finding.meaning is Meaning.UNKNOWN:
        return f"unknown{f': did you mean {finding.text}?' if finding.text else ''}"
    return _TEXTS.get(finding.meaning, "used").format(finding.text)


def _of_libraries() -> Iterator[tuple[str, str]]:
    with warnings.catch_warnings(action="ignore"):  # libraries of theirs import eventlet, which says that it is old
        from keystonemiddleware import auth_token  # noqa: PLC0415 - most of a short command's time is imports
        from oslo_messaging import opts as messaging  # noqa: PLC0415 - the same

    for group, options in (*auth_token.list_opts(), *messaging.list_opts()):
        yield from ((getattr(group, "name", group) or DEFAULT, option.dest) for option in options)

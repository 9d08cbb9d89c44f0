"""The meaning of options in configuration files: used, known by another name, without effect, or unknown."""

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from oslo_config import cfg

from minova import errors
from minova.conf.idle_options import AUTH, GROUPS, NO_EFFECT, Place
from minova.conf.nova_options import ELSEWHERE, PREFIXES, PROTECTING

DEFAULT = "DEFAULT"
# Options that libraries register when they are used.
_OF_MESSAGING = frozenset(
    [
        "transport_url",
        "executor_thread_pool_size",
        "rpc_thread_pool_size",
        "control_exchange",
        "rpc_response_timeout",
        "rpc_ping_enabled",
        "rpc_conn_pool_size",
        "conn_pool_min_size",
        "conn_pool_ttl",
    ]
)
_OF_MESSAGING_METRICS = frozenset(
    [
        "metrics_enabled",
        "metrics_buffer_size",
        "metrics_socket_file",
        "metrics_process_name",
        "metrics_thread_stop_timeout",
    ]
)
_OF_LIBRARIES = ("oslo_messaging_", "oslo_policy", "keystone_authtoken")
_WITH_USER = {"neutron", "service_user", "keystone_authtoken"}
_OF_AUTH = frozenset(AUTH.split())
# How similar a name is that is meant: in its own group, and in another one.
_IN_GROUP, _IN_OTHERS = 0.75, 0.85


class Meaning(StrEnum):
    USED = "used"
    OTHER_NAME = "other name"
    PROTECTS = "not served"
    NO_EFFECT = "no effect"
    UNKNOWN = "unknown"


class OptionFinding(NamedTuple):
    """`text`: the name here, the reason, or the nearest name."""

    file: Path
    group: str
    name: str
    value: str
    meaning: Meaning
    text: str = ""

    @property
    def option(self) -> str:
        return _text_of((self.group, self.name))


def read(path: Path) -> dict[str, dict[str, list[str]]]:
    """Returns {group: {name: values}}. Raises InvalidConfiguration with the file."""
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(str(path), sections).parse()
    except cfg.ParseError as error:
        # Without the line itself, which may be a part of a password.
        raise errors.InvalidConfiguration(f"{path}: line {error.lineno}: {error.msg}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidConfiguration(f"{path}: {error}") from None
    return sections


def files(conf: cfg.ConfigOpts) -> list[Path]:
    """Returns the configuration files that were read, the last one last."""
    folders = [Path(folder) for folder in conf.config_dir or ()]
    return [*map(Path, conf.config_file or ()), *(file for folder in folders for file in sorted(folder.glob("*.conf")))]


def candidates(args: Sequence[str], prog: str) -> list[Path]:
    """Returns the files that a command line names, and those that are read without one."""
    names: dict[str, list[str]] = {"--config-file": [], "--config-dir": []}
    for word, following in pairwise([*args, ""]):
        option, is_whole, value = word.partition("=")
        if option in names:
            names[option].append(value if is_whole else following)
    chosen = [Path(name) for name in names["--config-file"] or cfg.find_config_files("minova", prog)]
    folders = [Path(name) for name in names["--config-dir"] or cfg.find_config_dirs("minova", prog)]
    return [
        path
        for path in [*chosen, *(file for folder in folders for file in sorted(folder.glob("*.conf")))]
        if path.exists()
    ]


def written(conf: cfg.ConfigOpts, group: str, name: str) -> str | None:
    """Returns the option with its value and its file; None if no file has it."""
    for path in reversed(files(conf)):
        values = read(path).get(group, {}).get(name)
        if values:
            return f"[{group}] {name} = {values[-1]} in {path}"
    return None


class RegisteredOptions:
    """The options that this minova has. `conf` has every option registered."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        older_names: Collection[tuple[str, str]],
        of_libraries: Collection[tuple[str, str]] | None = None,
    ) -> None:
        """`of_libraries`: options that libraries register when they are used. None: they are not known, and a group of a library is
        assumed to have each option, because the import of the libraries would delay the start.
        """
        messaging = ((DEFAULT, _OF_MESSAGING), ("oslo_messaging_metrics", _OF_MESSAGING_METRICS))
        self._places = {
            *_places(conf),
            *older_names,
            *(of_libraries or ()),
            *((group, name) for group, names in messaging for name in names),
        }
        self._trusts_groups = of_libraries is None

    def has(self, group: str, name: str) -> bool:
        if (group, name) in self._places:
            return True
        if group in _WITH_USER and name in _OF_AUTH:
            return True
        is_known = (group, name) in NO_EFFECT or group in GROUPS
        return self._trusts_groups and not is_known and group.startswith(_OF_LIBRARIES)

    def nearest(self, group: str, name: str) -> str:
        """Returns the option with the most similar name, in this group or in others; empty if there is none."""
        for prefix, later in ((f"{group}_", group), *(PREFIXES if group == DEFAULT else ())):
            if name.startswith(prefix) and (similar := self._nearest_in(later, name.removeprefix(prefix))):
                return similar
        return self._in_others(name, 1.0) or self._nearest_in(group, name) or self._in_others(name, _IN_OTHERS)

    def _in_others(self, name: str, cutoff: float) -> str:
        close = difflib.get_close_matches(name, sorted({option for _, option in self._places}), n=1, cutoff=cutoff)
        return " or ".join(_text_of(place) for place in sorted(self._places) if place[1] in close)

    def _nearest_in(self, group: str, name: str) -> str:
        options_of_group = {option for place, option in {*self._places, *ELSEWHERE, *NO_EFFECT} if place == group}
        close = difflib.get_close_matches(name, sorted(options_of_group), n=1, cutoff=_IN_GROUP)
        if not close:
            return ""
        place = ELSEWHERE.get((group, close[0]), (group, close[0]))
        return _text_of(place) + (", which has no effect" if place in NO_EFFECT else "")


def _text_of(place: Place) -> str:
    return "[{}] {}".format(*place)


def findings(registered: RegisteredOptions, paths: Iterable[Path]) -> list[OptionFinding]:
    """Returns each option of the files, in their order."""
    option_findings = []
    for path in paths:
        for group, options in read(path).items():
            for name, values in options.items():
                meaning, text = _meaning(registered, group, name, values[-1])
                option_findings.append(OptionFinding(path, group, name, values[-1], meaning, text))
    return option_findings


def require_served(option_findings: Sequence[OptionFinding]) -> None:
    """Raises InvalidConfiguration if an option protects something that minova does not protect."""
    missing = [finding for finding in option_findings if finding.meaning is Meaning.PROTECTS]
    if missing:
        lines = "; ".join(
            f"{finding.option} = {finding.value} in {finding.file}: {finding.text}" for finding in missing
        )
        raise errors.InvalidConfiguration(f"Not served, so what it protects would be open: {lines}")


def warning_of(option_findings: Sequence[OptionFinding]) -> str | None:
    """Returns one line with all options that have no effect; None if there are none."""
    parts = []
    for meaning in (Meaning.OTHER_NAME, Meaning.NO_EFFECT, Meaning.UNKNOWN):
        options = dict.fromkeys(finding.option for finding in option_findings if finding.meaning is meaning)
        parts += [f"{meaning}: {', '.join(options)}"] if options else []
    if not parts:
        return None
    return f"Options without effect ({'; '.join(parts)}). `minova-manage config check FILE` says why."


def _meaning(registered: RegisteredOptions, group: str, name: str, value: str) -> tuple[Meaning, str]:
    protection = PROTECTING.get((group, name))
    if protection is not None and protection.asks(value):
        return Meaning.PROTECTS, protection.what
    if (group, name) in ELSEWHERE:
        return Meaning.OTHER_NAME, _text_of(ELSEWHERE[group, name])
    if registered.has(group, name):
        return Meaning.USED, ""
    reason = NO_EFFECT.get((group, name)) or GROUPS.get(group)
    if reason is None and protection is not None:
        reason = "this value asks for nothing"
    if reason is not None:
        return Meaning.NO_EFFECT, reason
    return _of_a_prefix(registered, group, name, value) or (Meaning.UNKNOWN, registered.nearest(group, name))


def _of_a_prefix(registered: RegisteredOptions, group: str, name: str, value: str) -> tuple[Meaning, str] | None:
    """Returns what the option means if an older release had it in [DEFAULT], with the name of its group before its own."""
    for prefix, later in PREFIXES if group == DEFAULT else ():
        for own in (name, name.removeprefix(prefix)) if name.startswith(prefix) else ():
            meaning, text = _meaning(registered, later, own, value)
            if meaning is Meaning.USED:
                return Meaning.OTHER_NAME, _text_of((later, own))
            if meaning is not Meaning.UNKNOWN:
                return meaning, text
    return None


def _places(conf: cfg.ConfigOpts) -> Iterator[tuple[str, str]]:
    for name in conf:
        try:
            value = conf[name]
        except (cfg.Error, ValueError):  # the option is there, and its value is wrong
            value = None
        if isinstance(value, cfg.ConfigOpts.GroupAttr):
            yield from ((name, option) for option in value)
        else:
            yield DEFAULT, name

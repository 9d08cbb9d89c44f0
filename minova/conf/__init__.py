"""Every option, in oslo.config groups, with Nova's names and defaults where Nova has the option.

The object is made once per process by `load` and handed to the rooms that need it: nothing reads it as a global.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from oslo_config import cfg

from minova import errors, log
from minova.conf import (
    api,
    broker,
    compute,
    conductor,
    consoleauth,
    consoleproxy,
    cors,
    database,
    devices,
    foreign_options,
    glance,
    guest_secrets,
    host_cells,
    image_cache,
    image_import,
    libvirt,
    messaging,
    metadata,
    metrics,
    networks,
    neutron,
    notifications,
    pci,
    placement,
    policy,
    prometheus,
    quota,
    scheduler,
    scheduling,
    serial_console,
    service,
    upgrade_levels,
    vnc,
    workarounds,
)

files = foreign_options.files
# oslo.config's name for options without a group.
DEFAULT = "DEFAULT"

MODULES: tuple[Any, ...] = (
    service,
    broker,
    database,
    api,
    quota,
    placement,
    policy,
    cors,
    glance,
    image_import,
    conductor,
    guest_secrets,
    scheduling,
    scheduler,
    metrics,
    compute,
    image_cache,
    networks,
    metadata,
    neutron,
    host_cells,
    pci,
    libvirt,
    devices,
    vnc,
    serial_console,
    consoleauth,
    consoleproxy,
    prometheus,
    notifications,
    upgrade_levels,
    workarounds,
)


def sample_options() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator, by group (entry point `oslo.config.opts`)."""
    groups: dict[str, list[cfg.Opt]] = {}
    for module in MODULES:
        groups.setdefault(module.GROUP or DEFAULT, []).extend(module.OPTS)
    for group, options in messaging.SAMPLE.items():
        groups.setdefault(group, []).extend(options)
    return list(groups.items())


def new() -> cfg.ConfigOpts:
    """A configuration with every option registered and nothing read yet."""
    conf = cfg.ConfigOpts()
    log.register(conf)
    for module in MODULES:
        conf.register_opts(module.OPTS, group=module.GROUP)
    return conf


def load(
    args: Sequence[str],
    prog: str,
    *,
    files: Sequence[str] | None = None,
    cli: Sequence[cfg.Opt] = (),
    usage: str | None = None,
) -> cfg.ConfigOpts:
    """Read the command line and the files it names (default: /etc/minova/minova.conf and its kin).

    Raises InvalidConfiguration, with option, value and file, if a file cannot be read or a value is wrong.
    """
    conf = unchecked(args, prog, files=files, cli=cli, usage=usage)
    check(conf)
    return conf


def unchecked(
    args: Sequence[str],
    prog: str,
    *,
    files: Sequence[str] | None = None,
    cli: Sequence[cfg.Opt] = (),
    usage: str | None = None,
) -> cfg.ConfigOpts:
    """Like `load`, but a wrong value raises only when it is read."""
    conf = new()
    conf.register_cli_opts(cli)
    with _named_files([*args, *(f"--config-file={file}" for file in files or ())], prog):
        conf(
            list(args),
            project="minova",
            prog=prog,
            version=version("minova"),
            default_config_files=None if files is None else list(files),
            usage=usage,
        )
    return conf


@contextlib.contextmanager
def _named_files(args: Sequence[str], prog: str) -> Iterator[None]:
    """Raises InvalidConfiguration in place of what oslo.config raises for files that it cannot read."""
    try:
        yield
    except cfg.ConfigFilesNotFoundError as error:
        raise _unread("--config-file", error.config_files, "there is no such file") from None
    except cfg.ConfigFilesPermissionDeniedError as error:
        raise _unread("--config-file", error.config_files, "this user may not read it") from None
    except cfg.ConfigDirNotFoundError as error:
        raise _unread("--config-dir", [error.config_dir], "there is no such folder") from None
    except (cfg.Error, OSError, UnicodeDecodeError) as error:
        for path in foreign_options.candidates(args, prog):
            foreign_options.read(path)  # raises what is wrong with this file
        raise errors.InvalidConfiguration(str(error)) from None


def _unread(option: str, paths: Iterable[object], reason: str) -> errors.InvalidConfiguration:
    return errors.InvalidConfiguration(f"{option} = {', '.join(map(str, paths))}: {reason}")


# Under which oslo.log also reads options.
_OLDER_LOG_OPTIONS = ("logdir", "logfile", "log_config", "log-config")


def older_names() -> Iterator[tuple[str, str]]:
    """Yields group and name of options under which minova reads them as well, as earlier releases of Nova called them."""
    yield from ((DEFAULT, name) for name in _OLDER_LOG_OPTIONS)
    for module in MODULES:
        for option in module.OPTS:
            yield from _older_names_of(module.GROUP or DEFAULT, option)


def older_names_of(place: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the older names of one option."""
    for module in MODULES:
        for option in module.OPTS:
            if place == (module.GROUP or DEFAULT, option.dest):
                yield from _older_names_of(place[0], option)


def _older_names_of(group: str, option: cfg.Opt) -> Iterator[tuple[str, str]]:
    for old in option.deprecated_opts:
        yield old.group or group, (old.name or option.dest).replace("-", "_")


def foreign(conf: cfg.ConfigOpts) -> list[foreign_options.OptionFinding]:
    """Returns the options in the files that were read. Raises InvalidConfiguration if one of them protects something that is not
    protected here.
    """
    registered = foreign_options.RegisteredOptions(conf, tuple(older_names()))
    findings = foreign_options.findings(registered, files(conf))
    foreign_options.require_served(findings)
    return findings


def override(conf: cfg.ConfigOpts, name: str, value: Any) -> None:
    """Set `group.option`, or `option` of no group; older names of an option will do.

    InvalidConfiguration: there is no such option, or the value is none for it.
    """
    group, option = _placed(name)
    try:
        conf.set_override(option, value, group)
    except (cfg.Error, ValueError, TypeError) as error:
        raise errors.InvalidConfiguration(f"option {name}: {error}") from None


def _placed(name: str) -> tuple[str | None, str]:
    group_name, _, option = name.rpartition(".")
    place = (group_name or DEFAULT, option)
    options = [(module.GROUP, opt) for module in MODULES for opt in module.OPTS]
    for group, opt in options:
        if place == (group or DEFAULT, opt.dest):
            return group, opt.dest
    for group, opt in options:
        if place in [(old.group or group or DEFAULT, old.name or opt.dest) for old in opt.deprecated_opts]:
            return group, opt.dest
    raise errors.InvalidConfiguration(f"option {name}: there is none of this name")


def check(conf: cfg.ConfigOpts) -> None:
    """Look at every value once, because oslo.config finds a wrong one only when it is read.

    Raises InvalidConfiguration with option, value and file.
    """
    for (group, name), why in wrong_values(conf):
        option_name = name if group == DEFAULT else f"[{group}] {name}"
        names = ((group, name), *older_names_of((group, name)))
        written = filter(None, (foreign_options.written(conf, *place) for place in names))
        raise errors.InvalidConfiguration(f"{next(written, option_name)}: {why}")


def wrong_values(conf: cfg.ConfigOpts) -> Iterator[tuple[tuple[str, str], str]]:
    """Yields group and name of each option whose value is none for it, and why."""
    for name in conf:
        value, why = _read(conf, name)
        if why:
            yield (DEFAULT, name), why
        elif isinstance(value, cfg.ConfigOpts.GroupAttr):
            for option in value:
                _, why = _read(value, option)
                if why:
                    yield (name, option), why


def _read(options: Mapping[str, Any], name: str) -> tuple[Any, str]:
    """Returns the value, and what is wrong with it."""
    try:
        value = options[name]
    except (cfg.Error, ValueError) as error:
        # oslo.config's own text names neither the value nor the file for people.
        return None, _in_words(str(error.__context__ if isinstance(error.__context__, ValueError) else error))
    if isinstance(value, float) and not math.isfinite(value):  # an option's minimum and maximum do not reject NaN
        return None, f"{value} is no finite number"
    return value, ""


def _in_words(why: str) -> str:
    """Returns Python's own texts in plain words."""
    if why.startswith("invalid literal for int()"):
        return "not a whole number"
    return "not a number" if why.startswith("could not convert string to float") else why

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
    check(conf)
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


def older_names() -> Iterator[tuple[str, str]]:
    """Yields group and name of options under which minova reads them as well, as earlier releases of Nova called them."""
    for module in MODULES:
        for option in module.OPTS:
            for old in option.deprecated_opts:
                yield old.group or module.GROUP or DEFAULT, (old.name or option.dest).replace("-", "_")


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
    """Look at every value once, because oslo.config finds a wrong one only when it is read."""
    for name in conf:
        value = _read(conf, conf, name)
        if isinstance(value, cfg.ConfigOpts.GroupAttr):
            for option in value:
                _read(conf, value, option, name)


def _read(conf: cfg.ConfigOpts, options: Mapping[str, Any], name: str, group: str = DEFAULT) -> Any:
    shown = name if group == DEFAULT else f"[{group}] {name}"
    try:
        value = options[name]
    except (cfg.Error, ValueError) as error:
        written = foreign_options.written(conf, group, name)
        # oslo.config's own text names neither the value nor the file for people.
        why = error.__context__ if isinstance(error.__context__, ValueError) else error
        raise errors.InvalidConfiguration(f"{written or shown}: {_in_words(str(why))}") from None
    if isinstance(value, float) and not math.isfinite(value):  # an option's minimum and maximum do not reject NaN
        raise errors.InvalidConfiguration(f"{shown}: {value} is no finite number")
    return value


def _in_words(why: str) -> str:
    """Returns Python's own texts in plain words."""
    if why.startswith("invalid literal for int()"):
        return "not a whole number"
    return "not a number" if why.startswith("could not convert string to float") else why

"""Options in the configuration files that no code reads, such as misspelt ones: oslo.config ignores them."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from oslo_config import cfg

from minova import conf as configuration

# Libraries register their options when they are used. Each lists them here.
LIBRARIES = ("oslo_messaging.opts", "oslo_policy.opts", "oslo_log._options")
# keystoneauth reads options of its plugins from these groups: they depend on auth_type.
OF_PLUGINS = frozenset({"keystone_authtoken", "neutron", "glance"})
Known = dict[str, set[str]]


def unknown(conf: cfg.ConfigOpts) -> Iterator[tuple[Path, str, str]]:
    """Yields (file, group, option)."""
    known = known_options(conf)
    for file in configuration.files(conf):
        sections: dict[str, dict[str, Any]] = {}
        cfg.ConfigParser(str(file), sections).parse()
        for group, options in sections.items():
            for name in options:
                if group not in OF_PLUGINS and _spelt(name) not in known.get(group.lower(), ()):
                    yield file, group, name


def known_options(conf: cfg.ConfigOpts) -> Known:
    known: Known = {}
    _add(known, None, (info["opt"] for info in conf._opts.values()))
    for name, group in conf._groups.items():
        _add(known, name, (info["opt"] for info in group._opts.values()))
    for library in LIBRARIES:
        for listed, options in import_module(library).list_opts():
            _add(known, str(listed) if listed else None, options)
    return known


def _add(known: Known, group: str | None, options: Iterable[Any]) -> None:
    own = (group or "DEFAULT").lower()
    for opt in options:
        known.setdefault(own, set()).update({_spelt(opt.name), _spelt(opt.dest)})
        for old in opt.deprecated_opts:
            known.setdefault((old.group or own).lower(), set()).add(_spelt(old.name or opt.dest))


def _spelt(name: str) -> str:
    return name.replace("-", "_")

"""Microversions: how a request names one, and what each version changes.

A client names its version in a header that all OpenStack APIs share: `OpenStack-API-Version: compute 2.1, placement
1.39`.

A `History` beside each resource lists the changes of a body, a query or an answer:

    ANSWER_HISTORY = History(ServerView, added("2.9", "locked"), added("2.19", "description"))

The structs have the fields of all versions. Validation refuses fields that the version of a request does not have,
answers omit them, and the pages of the documentation are generated from the same tables.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeAlias, TypeVar

import falcon
import msgspec

from minova import errors

Version: TypeAlias = tuple[int, int]
V = TypeVar("V", bound=msgspec.Struct)
W = TypeVar("W")

LOWEST: Version = (0, 0)
HIGHEST: Version = (9999, 9999)
HEADER = "OpenStack-API-Version"
# With `X-Minova-Fields: all` a client may send, and receives, the fields of later microversions and minova's own.
FIELDS = "X-Minova-Fields"

ADDED, REMOVED, REQUIRED, CHANGED = "added", "removed", "required", "changed"


class VersionNotSupported(errors.MinovaError):
    """A well-formed version that the API does not serve."""

    code = 406


def requested(header: str | None, *services: str) -> list[str]:
    """Returns the versions that the header names for one of `services`, in order. A service without a version has the
    default one.
    """
    entries = (entry.strip().partition(" ") for entry in (header or "").split(","))
    return [version.strip() for service, _, version in entries if service.lower() in services and version.strip()]


def text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


@cache
def parsed(version: str) -> Version:
    """Parses a version of a table. Each API parses the versions of requests itself."""
    major, minor = version.split(".")
    return int(major), int(minor)


def wants_all(request: falcon.Request) -> bool:
    return request.get_header(FIELDS) == "all"


# -- what versions change ----------------------------------------------------------------------------------------------


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """`names`: as clients know them. `note`: further information for the documentation."""

    version: Version
    kind: str
    names: tuple[str, ...]
    note: str = ""


def added(version: str, *names: str, note: str = "") -> Change:
    return Change(version=parsed(version), kind=ADDED, names=names, note=note)


def removed(version: str, *names: str, note: str = "") -> Change:
    return Change(version=parsed(version), kind=REMOVED, names=names, note=note)


def required(version: str, *names: str, note: str = "") -> Change:
    return Change(version=parsed(version), kind=REQUIRED, names=names, note=note)


def changed(version: str, *names: str, note: str) -> Change:
    """The form of a field changes: the handler checks the version itself, by `Call.since`."""
    return Change(version=parsed(version), kind=CHANGED, names=names, note=note)


class History:
    """The changes of the fields of `kind` by version; `kind` None: of keys that are in no struct.

    A name exists from the first version on unless its first change adds it. `strict_since`: the version from which
    unknown parameters of a query are refused; None: as the API decides.
    """

    def __init__(
        self, kind: type[msgspec.Struct] | None, *changes: Change, strict_since: Version | None = None, title: str = ""
    ) -> None:
        self.changes = sorted(changes, key=lambda change: change.version)
        self.strict_since = strict_since
        self.kind = kind
        self.title = title or (kind.__name__ if kind is not None else "")
        self._events: dict[str, list[Change]] = {}
        for change in self.changes:
            for name in change.names:
                self._events.setdefault(name, []).append(change)
        self._attributes: dict[str, str] = {}
        if kind is not None:
            self._attributes = {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
            unknown = self._events.keys() - self._attributes.keys()
            if unknown:
                raise ValueError(f"{kind.__name__} has no fields {sorted(unknown)}")
            _HISTORIES[kind] = self

    def has(self, name: str, version: Version, *, everything: bool = False) -> bool:
        """Whether the version has the name. `everything`: names of later versions count, too."""
        return name not in self.absent(version, everything)

    @cache  # noqa: B019  - as many entries as versions are served, of tables that live as long as the process
    def absent(self, version: Version, everything: bool = False) -> frozenset[str]:
        return frozenset(name for name in self._events if not self._has(name, version, everything))

    def _has(self, name: str, version: Version, everything: bool) -> bool:
        moves = [change for change in self._events[name] if change.kind in (ADDED, REMOVED)]
        before = [change for change in moves if change.version <= version]
        has_element = before[-1].kind == ADDED if before else not moves or moves[0].kind == REMOVED
        return has_element or (
            everything and any(change.kind == ADDED and change.version > version for change in moves)
        )

    @cache  # noqa: B019  - likewise
    def required(self, version: Version) -> frozenset[str]:
        return frozenset(
            name
            for name, changes in self._events.items()
            if any(change.kind == REQUIRED and change.version <= version for change in changes)
        )

    @cache  # noqa: B019  - likewise
    def _unset(self, version: Version, everything: bool) -> dict[str, Any]:
        return {self._attributes[name]: msgspec.UNSET for name in self.absent(version, everything)}

    def of_version(self, view: V, version: Version, *, everything: bool = False) -> V:
        """Returns `view` without the fields that the version does not have."""
        unset = self._unset(version, everything)
        return msgspec.structs.replace(view, **unset) if unset else view

    def keys_of_version(self, document: Mapping[str, W], version: Version, *, everything: bool = False) -> dict[str, W]:
        """The same as `of_version`, for an answer that is not a struct."""
        absent = self.absent(version, everything)
        return {key: value for key, value in document.items() if key not in absent}


_HISTORIES: dict[type, History] = {}


def history_of(kind: Any) -> History | None:
    """Returns the history of a struct, or of its closest base class with one."""
    parents: Iterable[type] = getattr(kind, "__mro__", ())
    return next((_HISTORIES[parent] for parent in parents if parent in _HISTORIES), None)


def require_no_fields(value: Any) -> None:
    """Raises BadRequest, with Nova's text, if the value of an action that has no fields in this version is an object with fields. As in Nova, any
    other value is ignored.
    """
    if isinstance(value, Mapping) and value:
        raise errors.BadRequest(
            f"Additional properties are not allowed ('{str(next(iter(value)))[:64]}' was unexpected)"
        )


# -- bodies ------------------------------------------------------------------------------------------------------------

Check: TypeAlias = Callable[[Any, Version, str], None]


@cache
def body_check(kind: Any) -> Check | None:
    """Returns a check for a type of bodies; None if versions do not change it.

    The check raises BadRequest, with Nova's text, for a field that the version does not have or that is missing.
    """
    return _check_of(msgspec.inspect.type_info(kind))


def _check_of(info: Any) -> Check | None:
    if isinstance(info, msgspec.inspect.StructType):
        return _struct_check(info)
    if isinstance(info, msgspec.inspect.UnionType):
        checks = [check for check in map(_check_of, info.types) if check is not None]
        return checks[0] if checks else None
    if isinstance(info, msgspec.inspect.ListType):
        return _list_check(_check_of(info.item_type))
    return None


def _list_check(check_item: Check | None) -> Check | None:
    if check_item is None:
        return None

    def check_list(document: Any, version: Version, place: str) -> None:
        for each in document if isinstance(document, list) else ():
            check_item(each, version, place)

    return check_list


def _struct_check(info: msgspec.inspect.StructType) -> Check | None:
    history = history_of(info.cls)
    inner = [(field.encode_name, _check_of(field.type)) for field in info.fields]
    checks = [(name, check_field) for name, check_field in inner if check_field is not None]
    if history is None and not checks:
        return None

    def check_struct(document: Any, version: Version, place: str) -> None:
        if not isinstance(document, dict):
            return
        if history is not None:
            _check_names(history, document, version, place)
        for name, check_field in checks:
            if name in document:
                check_field(document[name], version, name)

    return check_struct


def _check_names(history: History, document: Mapping[str, Any], version: Version, place: str) -> None:
    for name in document:
        if name in history.absent(version):
            raise errors.BadRequest(
                f"Invalid input for field/attribute {place}. Additional properties are not allowed ('{name}' was unexpected)"
            )
    for name in history.required(version):
        if name not in document:
            raise errors.BadRequest(f"Invalid input for field/attribute {place}. '{name}' is a required property")

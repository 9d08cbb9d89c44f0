"""The query of a listing of servers, and its translation into a filter for the database."""

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from minova import errors
from minova.api.http import times
from minova.api.http.call import Call
from minova.api.http.microversions import History, added, changed
from minova.api.http.structs import PageQuery, check_sort_keys
from minova.db.api_queries.instances import PATTERN_TEXTS, PATTERN_VALUES, SORT_KEYS, InstanceFilter
from minova.db.api_queries.patterns import Pattern, parse
from minova.objects.servers.server_changes import MAX_TAGS
from minova.objects.servers.server_status import states_of
from minova.objects.servers.states import VmState

TRUE = {"1", "t", "true", "on", "y", "yes", ""}
FALSE = {"0", "f", "false", "off", "n", "no"}


class ServersQuery(PageQuery, frozen=True, kw_only=True):
    """Nova's filters, most of them for users, too. The filters in PATTERNS and CONSTANTS are regular expressions.

    `ip`, `ip6`: one of the server's addresses of that version.
    Tags are separated by commas.
    `soft_deleted` changes nothing.
    """

    name: str | None = None
    display_name: str | None = None
    description: str | None = None
    display_description: str | None = None
    hostname: str | None = None
    key_name: str | None = None
    status: tuple[str, ...] = ()
    vm_state: str | None = None
    task_state: str | None = None
    power_state: str | None = None
    progress: str | None = None
    launch_index: str | None = None
    config_drive: str | None = None
    host: str | None = None
    node: str | None = None
    flavor: str | None = None
    image: str | None = None
    image_ref: str | None = None
    uuid: str | None = None
    reservation_id: str | None = None
    availability_zone: str | None = None
    project_id: str | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    ip: str | None = None
    ip6: str | None = None
    access_ip_v4: str | None = None
    access_ip_v6: str | None = None
    auto_disk_config: str | None = None
    kernel_id: str | None = None
    ramdisk_id: str | None = None
    root_device_name: str | None = None
    locked_by: str | None = None
    created_at: str | None = None
    launched_at: str | None = None
    terminated_at: str | None = None
    all_tenants: str | None = None
    deleted: str | None = None
    soft_deleted: str | None = None
    locked: str | None = None
    tags: str | None = None
    tags_any: str | None = msgspec.field(name="tags-any", default=None)
    not_tags: str | None = msgspec.field(name="not-tags", default=None)
    not_tags_any: str | None = msgspec.field(name="not-tags-any", default=None)
    changes_since: str | None = msgspec.field(name="changes-since", default=None)
    changes_before: str | None = msgspec.field(name="changes-before", default=None)
    sort_key: tuple[str, ...] = ()
    sort_dir: tuple[str, ...] = ()


QUERY_HISTORY = History(
    ServersQuery,
    added("2.26", "tags", "tags-any", "not-tags", "not-tags-any"),
    changed("2.38", "status", note="one that there is not is refused"),
    added("2.66", "changes-before"),
    added("2.73", "locked"),
    changed("2.73", "sort_key", note="may be locked"),
    changed("2.75", "sort_key", note="one by which nothing is sorted is refused"),
    strict_since=(2, 75),
)
ALL_FILTERS = "os_compute_api:servers:allow_all_filters"
# The column of each parameter that is a regular expression.
PATTERNS: dict[str, str] = {
    **{key: key for key in (*PATTERN_TEXTS, *PATTERN_VALUES)},
    "name": "display_name",
    "description": "display_description",
}
# Values that all servers share so far, to which these parameters apply a regular expression. None: no server has a
# value, so nothing matches.
CONSTANTS: dict[str, str | None] = {
    "root_device_name": "/dev/vda",
}
# Tables that Nova joins to a server. As in Nova, filters with these names or with a leading underscore are refused.
JOINED = frozenset(
    (
        "block_device_mapping",
        "services",
        "metadata",
        "system_metadata",
        "info_cache",
        "security_groups",
        "pci_devices",
    )
)
# Nova accepts these keys for old clients, but does not sort by them.
UNSORTED = frozenset(
    (
        "architecture",
        "cell_name",
        "cleaned",
        "default_ephemeral_device",
        "default_swap_device",
        "deleted",
        "deleted_at",
        "disable_terminate",
        "ephemeral_gb",
        "ephemeral_key_uuid",
        "id",
        "key_data",
        "launched_on",
        "locked",
        "memory_mb",
        "os_type",
        "reservation_id",
        "root_gb",
        "shutdown_terminate",
        "user_data",
        "vcpus",
        "vm_mode",
    )
)
# Keys whose value all servers share so far: the next key decides the order.
ALIKE = frozenset(("root_device_name",))
_LOCKED = frozenset(("locked",))
ADMIN_SORT_KEYS = frozenset(("host", "node"))


class ListingRights(msgspec.Struct, frozen=True, kw_only=True):
    """The servers that a caller may list. `refusal`: the text of a 403 for the servers of all projects; None: the caller may list
    them.
    """

    is_admin: bool
    all_filters: bool
    refusal: str | None = None


def rights_of(call: Call) -> ListingRights:
    rule = f"{call.rule}:get_all_tenants"
    return ListingRights(
        is_admin=call.ctx.is_admin,
        all_filters=call.permits(ALL_FILTERS),
        refusal=None if call.permits(rule) else call.access.refusal.format(rule),
    )


# Filters for administrators. Other callers do not see hosts, and list only the existing servers of their own project.
ADMIN_FIELDS = ("host", "node", "project_id", "tenant_id", "deleted")


def check_names(names: Collection[str]) -> None:
    """Raises BadRequest if Nova refuses to filter by one of the query parameters `names`. Unknown names are ignored, as
    in Nova.
    """
    for name in names:
        if name in JOINED or name.startswith("_"):
            raise errors.BadRequest(f"Invalid filter field: {name[:64]}.")


def check_status(call: Call, query: ServersQuery) -> None:
    """From 2.38 on, raises BadRequest if none of the values is a status. In older versions they match nothing."""
    if query.status and call.since("2.38") and states_of(query.status) is None:
        raise errors.BadRequest("Invalid status value")


class SortKeys(NamedTuple):
    """`ignored`: keys that are accepted but do not sort."""

    sorting: frozenset[str]
    ignored: frozenset[str]


FIRST_KEYS = SortKeys((frozenset(SORT_KEYS) | ALIKE) - _LOCKED, UNSORTED)


def sort_keys_of(call: Call) -> SortKeys:
    if not (call.since("2.73") or call.shows_all):
        return FIRST_KEYS
    ignored = frozenset[str]() if call.since("2.75") else FIRST_KEYS.ignored - _LOCKED
    return SortKeys(FIRST_KEYS.sorting | _LOCKED, ignored)


def instance_filter(query: ServersQuery, project_id: str, rights: ListingRights) -> InstanceFilter | None:
    """Returns the filter for the database; None if nothing can match.

    As in Nova, ignores parameters for administrators if the caller is not one.
    """
    every_project = boolean("all_tenants", query.all_tenants)
    if rights.refusal is not None and every_project:
        raise errors.Forbidden(rights.refusal)
    if not rights.all_filters:
        query = msgspec.structs.replace(query, **dict.fromkeys(ADMIN_FIELDS))
    patterns = _patterns(query)
    states = _states(query)
    images = {image for image in (query.image, query.image_ref) if image is not None}
    if patterns is None or states is None or len(images) > 1:
        return None
    since, before = times.span(query.changes_since, query.changes_before)
    return InstanceFilter(
        project_id=(query.project_id or query.tenant_id) if every_project else project_id,
        user_id=query.user_id,
        patterns=patterns,
        vm_states=states.vm_states,
        task_states=states.task_states,
        host=query.host,
        flavorid=query.flavor,
        image_ref=images.pop() if images else None,
        uuid=query.uuid,
        config_drive=_config_drive(query.config_drive),
        availability_zone=query.availability_zone,
        changed_since=since,
        changed_before=before,
        locked=boolean("locked", query.locked),
        tags=_tags(query.tags),
        tags_any=_tags(query.tags_any),
        not_tags=_tags(query.not_tags),
        not_tags_any=_tags(query.not_tags_any),
        deleted=_deleted(query, states.vm_states, rights),
    )


def _tags(text: str | None) -> tuple[str, ...]:
    """Raises BadRequest if there are more tags than a query of the database can have."""
    tags = () if text is None else tuple(dict.fromkeys(text.split(",")))
    if len(tags) > MAX_TAGS:
        raise errors.BadRequest(f"There are {len(tags)} tags in a filter, and at most {MAX_TAGS} are allowed.")
    return tags


def _deleted(query: ServersQuery, states: tuple[str, ...] | None, rights: ListingRights) -> bool | None:
    deleted = query.deleted is not None and query.deleted.lower() in TRUE - {""}
    if states == (VmState.DELETED,) and not deleted:
        if not rights.is_admin:
            raise errors.Forbidden("Only administrators may list deleted servers.")
        return True
    if (query.changes_since is not None or query.changes_before is not None) and query.deleted is None:
        return None  # changes include deletions
    return deleted


def _patterns(query: ServersQuery) -> tuple[tuple[str, Pattern], ...] | None:
    """Returns (column, pattern) pairs, or None if one of the patterns matches no server.

    Raises BadRequest if a text is not a valid regular expression.
    """
    patterns = []
    for name, column in PATTERNS.items():
        text: str | None = getattr(query, name)
        if text is not None:
            patterns.append((column, parse(name, text)))
    for name, constant in CONSTANTS.items():
        text = getattr(query, name)
        if text is not None and not _finds(parse(name, text), constant):
            return None
    for name in ("availability_zone", "flavor"):
        if getattr(query, name) == "":
            raise errors.BadRequest(f"Invalid input for query parameter {name}: it is empty.")
    return tuple(patterns)


def _finds(pattern: Pattern, constant: str | None) -> bool:
    return constant is not None and pattern.search(constant)


def _config_drive(value: str | None) -> bool | None:
    if value == "":
        raise errors.BadRequest("Invalid input for query parameter config_drive: it is empty.")
    return boolean("config_drive", value)


class _States(NamedTuple):
    """None stands for any state."""

    vm_states: tuple[str, ...] | None
    task_states: tuple[str, ...] | None


def _states(query: ServersQuery) -> _States | None:
    """Returns the states that the query filters by, or None if none of its statuses exists, so that nothing matches.

    As in Nova, the states of `status` take precedence over `vm_state` and `task_state`.
    """
    exact_states = _States(
        None if query.vm_state is None else (query.vm_state,), None if query.task_state is None else (query.task_state,)
    )
    if not query.status:
        return exact_states
    status_states = states_of(query.status)
    return (
        None
        if status_states is None
        else _States(status_states.vm_states, status_states.task_states or exact_states.task_states)
    )


def order(query: ServersQuery, *, is_admin: bool = True, keys: SortKeys = FIRST_KEYS) -> list[tuple[str, bool]]:
    """Returns (key, whether descending) pairs. As in Nova, the default is the newest first.

    Ignored keys are left out together with their direction. Raises BadRequest for any other unknown key, Forbidden for
    a key that is only for administrators.
    """
    check_sort_keys(query.sort_key, keys.sorting | keys.ignored)
    chosen, directions = [], [*query.sort_dir]
    for key in query.sort_key:
        if key not in keys.ignored:
            chosen.append(key)
        elif len(directions) > len(chosen):
            directions.pop(len(chosen))
    result: dict[str, bool] = {}
    for number, key in enumerate(chosen or ["created_at"]):
        if key in ADMIN_SORT_KEYS and not is_admin:
            raise errors.Forbidden(f"Only administrators can sort servers by {key}")
        direction = directions[number].strip() if number < len(directions) else "desc"
        if direction not in ("asc", "desc"):
            raise errors.BadRequest(f"sort_dir is asc or desc, not '{direction}'.")
        if key not in ALIKE:
            result.setdefault(key, direction == "desc")
    return [*result.items()] or [("created_at", True)]


def boolean(name: str, value: str | None) -> bool | None:
    """Parses a boolean as Nova does: `all_tenants=` without a value is true."""
    if value is None:
        return None
    if value.lower() in TRUE:
        return True
    if value.lower() in FALSE:
        return False
    raise errors.BadRequest(f"Invalid input for query parameter {name}: '{value}' is neither true nor false.")

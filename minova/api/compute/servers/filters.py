"""What a listing of servers may be asked for, and what that means to the database."""

import re
from typing import Any

import msgspec

from minova import errors
from minova.api.compute.servers.view import STATUS
from minova.api.http import times
from minova.api.http.call import Call
from minova.api.http.structs import Int64, Page, check_sort_keys
from minova.db.api_queries.instances import SORT_KEYS, InstanceFilter
from minova.objects.states import VmState

TRUE = {"1", "t", "true", "on", "y", "yes", ""}
FALSE = {"0", "f", "false", "off", "n", "no"}


class ServersQuery(Page, frozen=True, kw_only=True):
    """`name` is a pattern: text anywhere in the name, with `^`, `$`, `.`, `.*` and backslashes as regular expressions have them."""

    name: str | None = None
    status: tuple[str, ...] = ()
    vm_state: str | None = None
    task_state: str | None = None
    power_state: Int64 | None = None
    host: str | None = None
    node: str | None = None
    flavor: str | None = None
    image: str | None = None
    uuid: str | None = None
    reservation_id: str | None = None
    availability_zone: str | None = None
    project_id: str | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    all_tenants: str | None = None
    deleted: str | None = None
    changes_since: str | None = msgspec.field(name="changes-since", default=None)
    sort_key: tuple[str, ...] = ()
    sort_dir: tuple[str, ...] = ()


ALL_FILTERS = "os_compute_api:servers:allow_all_filters"


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may list. `refusal`: why not the servers of all projects; None: it may."""

    is_admin: bool
    all_filters: bool
    refusal: str | None = None


def rights_of(call: Call) -> Rights:
    rule = f"{call.rule}:get_all_tenants"
    return Rights(
        is_admin=call.ctx.is_admin,
        all_filters=call.permits(ALL_FILTERS),
        refusal=None if call.permits(rule) else call.access.refusal.format(rule),
    )


# Of these the database must know all of a row's host; people without the admin role do not see hosts, so may not ask.
ADMIN_FIELDS = ("host", "node", "project_id", "tenant_id", "deleted", "availability_zone")


def wanted(query: ServersQuery, project_id: str, rights: Rights) -> InstanceFilter | None:
    """What to look for; None: nothing can match. What is only for administrators is ignored for others, as in Nova."""
    if rights.refusal is not None and boolean("all_tenants", query.all_tenants):
        raise errors.Forbidden(rights.refusal)
    if not rights.all_filters:
        query = msgspec.structs.replace(query, **dict.fromkeys(ADMIN_FIELDS))
    states = _vm_states(query)
    if states == ():
        return None
    since = None if query.changes_since is None else times.parse(query.changes_since)
    deleted: bool | None = boolean("deleted", query.deleted) or False
    if states is not None and VmState.DELETED in states and not deleted:
        if not rights.is_admin:
            raise errors.Forbidden("Only administrators may list deleted servers.")
        deleted = True if states == (VmState.DELETED,) else None
    elif since is not None and query.deleted is None:
        deleted = None  # changes include deletions
    return InstanceFilter(
        project_id=_project(query, project_id),
        user_id=query.user_id,
        name_like=None if query.name is None else like(query.name),
        vm_states=states,
        task_state=query.task_state,
        power_state=query.power_state,
        host=query.host,
        node=query.node,
        flavorid=query.flavor,
        image_ref=query.image,
        uuid=query.uuid,
        reservation_id=query.reservation_id,
        availability_zone=query.availability_zone,
        changed_since=since,
        deleted=deleted,
    )


def _project(query: ServersQuery, own: str) -> str | None:
    """Of all projects with all_tenants, or of another one that an administrator names."""
    named = query.project_id or query.tenant_id
    return named if named or boolean("all_tenants", query.all_tenants) else own


def _vm_states(query: ServersQuery) -> tuple[str, ...] | None:
    """None: any. A status that there is not matches nothing."""
    states = None
    if query.status:
        statuses = {status.upper() for status in query.status}
        states = tuple(state for state, status in STATUS.items() if status in statuses)
    if query.vm_state is not None:
        states = (query.vm_state,) if states is None or query.vm_state in states else ()
    return states


def order(query: ServersQuery) -> list[tuple[str, bool]]:
    """(key, whether descending); the newest come first unless asked otherwise, as in Nova."""
    check_sort_keys(query.sort_key, SORT_KEYS)
    result = []
    for number, key in enumerate(query.sort_key):
        direction = query.sort_dir[number] if number < len(query.sort_dir) else "desc"
        if direction not in ("asc", "desc"):
            raise errors.BadRequest(f"sort_dir is asc or desc, not '{direction}'.")
        result.append((key, direction == "desc"))
    if not result:
        direction = query.sort_dir[0] if query.sort_dir else "desc"
        result = [("created_at", direction != "asc")]
    return result


def boolean(name: str, value: str | None) -> bool | None:
    """As Nova reads it: `all_tenants=` without a value is true."""
    if value is None:
        return None
    if value.lower() in TRUE:
        return True
    if value.lower() in FALSE:
        return False
    raise errors.BadRequest(f"Invalid input for query parameter {name}: '{value}' is neither true nor false.")


# A name has 255 characters at most; a backslash before each and both anchors fit as well.
MAX_PATTERN = 512
_TOKEN = re.compile(r"\\(?P<escaped>[^\w])|(?P<any>\.\*)|(?P<one>\.)|(?P<plain>[^\\.*+?^$()\[\]{}|])")


def like(pattern: str) -> str:
    """Translates a simple regular expression into a LIKE pattern, so that no client can run an endless expression in the database.

    Takes time in proportion to the pattern's length. Raises BadRequest for an expression that needs more than `^`, `$`, `.`,
    `.*` and escaped characters, and for one longer than MAX_PATTERN.
    """
    if len(pattern) > MAX_PATTERN:
        raise errors.BadRequest(f"The name pattern is {len(pattern)} characters long; {MAX_PATTERN} are allowed.")
    start = "" if pattern.startswith("^") else "%"
    result, at = [start], 0 if start else 1
    while at < len(pattern):
        if pattern[at] == "$" and at == len(pattern) - 1:
            return "".join(result)
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise errors.BadRequest(
                f"The name pattern '{pattern}' is not served: use plain text, ^, $, ., .*, and \\ before other signs."
            )
        result.append(_piece(token))
        at = token.end()
    return "".join([*result, "%"])


def _piece(token: Any) -> str:
    if token["any"]:
        return "%"
    if token["one"]:
        return "_"
    letter: str = token["escaped"] or token["plain"]
    return "\\" + letter if letter in "%_\\" else letter

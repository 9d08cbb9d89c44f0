"""The one rule for a text that is the name or the id of a security group: the id wins. Pure."""

from collections.abc import Iterable


def ids_by_text(groups: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """`groups`: (id, name) of each. Returns the ids that each text means: one id for an id, even if other groups have it as their
    name; all that have the name for a name.
    """
    by_id: dict[str, list[str]] = {}
    by_name: dict[str, list[str]] = {}
    for group_id, name in groups:
        by_id[group_id] = [group_id]
        by_name.setdefault(name, []).append(group_id)
    return {**by_name, **by_id}

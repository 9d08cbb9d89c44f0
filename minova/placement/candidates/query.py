"""The query string of GET /allocation_candidates, read by the rules of each microversion. Pure."""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias

from minova.placement.candidates.request import CandidateRequest, RequestGroup
from minova.placement.errors import BAD_VALUE, DUPLICATE_KEY, MISSING_VALUE, BadRequest
from minova.placement.limits.query_values import read_aggregates, read_resources, read_traits, read_uuid

Pairs: TypeAlias = Sequence[tuple[str, str]]
Version: TypeAlias = tuple[int, int]

# The first microversion that knows each key; the keys of groups first.
_GROUP_KEYS = {"resources": (1, 10), "required": (1, 17), "member_of": (1, 21), "in_tree": (1, 31)}
_WIDE_KEYS = {"limit": (1, 16), "group_policy": (1, 25), "root_required": (1, 35), "same_subtree": (1, 36)}
_GROUPS = (1, 25)
_NAMED_GROUPS = (1, 33)
_SAME_SUBTREE = (1, 36)
_NESTED = (1, 29)
_NUMBERED = re.compile(r"(resources|required|member_of|in_tree)([1-9][0-9]*)?")
_NAMED = re.compile(r"(resources|required|member_of|in_tree)([a-zA-Z0-9_-]{1,64})?")
# Python rejects numbers of more than 4,300 digits.
_LIMIT = re.compile(r"[1-9][0-9]{0,999}")
_POLICIES = ("none", "isolate")


def parse(pairs: Pairs, version: Version) -> CandidateRequest:
    """`pairs`: (key, value) in their order. Raises BadRequest, which names the wrong key and what would be right."""
    _check_keys(pairs, version)
    _check_limit(pairs)
    policy = _policy(pairs)
    same_subtrees = _same_subtrees(pairs)
    required, forbidden = _root_traits(pairs, version)
    groups = _groups(pairs, version)
    _check_groups(groups, version, frozenset().union(*same_subtrees))
    if policy is None and sum(group.granular for group in groups) > 1:
        raise BadRequest(
            'The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'
        )
    limits = _values(pairs, "limit")
    return CandidateRequest(
        groups=groups,
        limit=int(limits[0]) if limits else None,
        isolate=policy == "isolate",
        root_required=required,
        root_forbidden=forbidden,
        same_subtrees=same_subtrees,
        nested=version >= _NESTED,
    )


def _values(pairs: Pairs, key: str) -> list[str]:
    return [value for name, value in pairs if name == key]


# -- which keys there are ----------------------------------------------------------------------------------------------


def _check_keys(pairs: Pairs, version: Version) -> None:
    unknown = sorted({key for key, _ in pairs if not _is_known(key, version)})
    if unknown and version < _GROUPS:
        raise BadRequest(f"Invalid query string parameters: '{unknown[0]}' was unexpected.")
    if unknown:
        raise BadRequest(
            f"Invalid query string parameters: '{unknown[0]}' does not match any of the regexes: "
            f"{', '.join(_patterns(version))}, and is none of {sorted(_WIDE_KEYS)} that this microversion knows."
        )
    if version < _GROUPS and not _values(pairs, "resources"):
        raise BadRequest("Invalid query string parameters: 'resources' is a required property.")


def _patterns(version: Version) -> list[str]:
    suffix = _pattern(version).pattern.partition(")")[2].removesuffix("?")
    return [f"'^{key}{suffix}?$'" for key, since in sorted(_GROUP_KEYS.items()) if version >= since]


def _is_known(key: str, version: Version) -> bool:
    if key in _WIDE_KEYS:
        return version >= _WIDE_KEYS[key]
    match = _pattern(version).fullmatch(key)
    if match is None or (match[2] and version < _GROUPS):
        return False
    return version >= _GROUP_KEYS[match[1]]


def _pattern(version: Version) -> re.Pattern[str]:
    return _NAMED if version >= _NAMED_GROUPS else _NUMBERED


# -- what concerns the whole request -----------------------------------------------------------------------------------


def _check_limit(pairs: Pairs) -> None:
    for value in _values(pairs, "limit"):
        if not _LIMIT.fullmatch(value):
            raise BadRequest(
                f"Invalid query string parameters: limit is '{value}', and must be a whole number from 1 up. "
                f"Failed validating 'pattern' {_LIMIT.pattern}."
            )


def _policy(pairs: Pairs) -> str | None:
    values = _values(pairs, "group_policy")
    for value in values:
        if value not in _POLICIES:
            raise BadRequest(f"Invalid query string parameters: group_policy: '{value}' is not one of {[*_POLICIES]}.")
    return values[0] if values else None


def _same_subtrees(pairs: Pairs) -> tuple[frozenset[str], ...]:
    subtrees = [frozenset(part.strip() for part in value.split(",")) for value in _values(pairs, "same_subtree")]
    if any("" in suffixes for suffixes in subtrees):
        raise BadRequest("Empty string (unsuffixed group) can not be specified in `same_subtree`.", BAD_VALUE)
    return tuple(subtrees)


class RootTraits(NamedTuple):
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


def _root_traits(pairs: Pairs, version: Version) -> RootTraits:
    values = _values(pairs, "root_required")
    if not values:
        return RootTraits()
    if len(values) > 1:
        raise BadRequest("Query parameter 'root_required' may be specified only once.", DUPLICATE_KEY)
    sets, forbidden = read_traits("root_required", values[0], (1, 38))
    required = frozenset().union(*sets)
    if required & forbidden:
        names = ", ".join(sorted(required & forbidden))
        raise BadRequest(f"Conflicting required and forbidden traits found in root_required: {names}", BAD_VALUE)
    return RootTraits(required, forbidden)


# -- groups ------------------------------------------------------------------------------------------------------------


def _groups(pairs: Pairs, version: Version) -> tuple[RequestGroup, ...]:
    """In the order of their first keys."""
    keys: dict[str, None] = {}
    for key, _ in pairs:
        match = _pattern(version).fullmatch(key) if key not in _WIDE_KEYS else None
        if match is not None:
            keys[match[2] or ""] = None
    return tuple(_group(pairs, suffix, version) for suffix in keys)


def _group(pairs: Pairs, suffix: str, version: Version) -> RequestGroup:
    resources = [read_resources(value) for value in _values(pairs, f"resources{suffix}")]
    key = f"required{suffix}"
    traits = _values(pairs, key)
    # Before any-of traits existed, only the last of repeated keys counted.
    read = [read_traits(key, value, version) for value in (traits if version >= (1, 39) else traits[-1:])]
    member_of, forbidden_aggregates = read_aggregates(
        f"member_of{suffix}", _values(pairs, f"member_of{suffix}"), version
    )
    in_tree = [read_uuid("in_tree", value) for value in _values(pairs, f"in_tree{suffix}")]
    return RequestGroup(
        suffix=suffix,
        resources=resources[-1] if resources else {},
        required=tuple(some for required, _ in read for some in required),
        forbidden=frozenset().union(*(forbidden for _, forbidden in read)),
        member_of=member_of,
        forbidden_aggregates=forbidden_aggregates,
        in_tree=in_tree[-1] if in_tree else None,
    )


def _check_groups(groups: Collection[RequestGroup], version: Version, in_subtrees: frozenset[str]) -> None:
    if version >= _SAME_SUBTREE:
        _check_subtrees(groups, in_subtrees)
    else:
        _check_orphans(groups)
    conflicts = sorted(
        f"required{group.suffix}: ({', '.join(sorted(some))})"
        for group in groups
        for some in group.required
        if some <= group.forbidden
    )
    if conflicts:
        raise BadRequest(
            f"Conflicting required and forbidden traits found in the following traits keys: {', '.join(conflicts)}"
        )


def _check_subtrees(groups: Collection[RequestGroup], in_subtrees: frozenset[str]) -> None:
    suffixes = {group.suffix for group in groups}
    without = {group.suffix for group in groups if not group.resources}
    if without == suffixes:
        raise BadRequest("There must be at least one resources or resources[$S] parameter.", MISSING_VALUE)
    if without - in_subtrees:
        raise BadRequest(
            "Resourceless suffixed group request should be specified in `same_subtree` query param: "
            f"bad group(s) - {sorted(without - in_subtrees)}.",
            BAD_VALUE,
        )
    if in_subtrees - suffixes:
        raise BadRequest(
            "Real suffixes should be specified in `same_subtree`: "
            f"{sorted(in_subtrees - suffixes)} not found in {sorted(suffixes)}.",
            BAD_VALUE,
        )


def _check_orphans(groups: Collection[RequestGroup]) -> None:
    if not groups:
        raise BadRequest("At least one request group (`resources` or `resources{$S}`) is required.")
    without = [group for group in groups if not group.resources]
    traits = [f"required{group.suffix}" for group in without if group.required]
    if traits:
        raise BadRequest(
            "All traits parameters must be associated with resources. "
            f"Found the following orphaned traits keys: {', '.join(traits)}"
        )
    aggregates = [f"member_of{group.suffix}" for group in without if group.member_of or group.forbidden_aggregates]
    if aggregates:
        raise BadRequest(
            "All member_of parameters must be associated with resources. "
            f"Found the following orphaned member_of keys: {', '.join(aggregates)}"
        )
    if without:
        raise BadRequest("All request groups must specify resources.")

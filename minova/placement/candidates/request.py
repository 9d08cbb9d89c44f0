"""What is asked of allocation candidates, as values."""

from collections.abc import Mapping

import msgspec


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One group of a request. The one without a suffix may be spread over a tree; any other comes from one provider.

    `required` and `member_of`: of each set at least one.
    """

    suffix: str = ""
    resources: Mapping[str, int] = {}
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    in_tree: str | None = None

    @property
    def granular(self) -> bool:
        return self.suffix != ""


class CandidateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`isolate`: no two granular groups from one provider. `same_subtrees`: of the groups with these suffixes, one's
    provider is an ancestor of all the others'. `nested`: without it, at most one provider of each tree is used.
    """

    groups: tuple[Group, ...]
    limit: int | None = None
    isolate: bool = False
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtrees: tuple[frozenset[str], ...] = ()
    nested: bool = True

    def resource_classes(self) -> frozenset[str]:
        return frozenset(name for group in self.groups for name in group.resources)

    def traits(self) -> frozenset[str]:
        """All that are named anywhere."""
        named = [self.root_required, self.root_forbidden]
        for group in self.groups:
            named += [group.forbidden, *group.required]
        return frozenset().union(*named)

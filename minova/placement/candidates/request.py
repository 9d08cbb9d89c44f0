"""A request for allocation candidates, as values."""

from collections.abc import Mapping

import msgspec


class RequestGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group of a request. The group without a suffix may be spread over a tree. Any other group must be served by one
    provider.

    `required` and `member_of`: sets; the provider must have at least one element of each set.
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
    """`isolate`: no provider serves two granular groups.
    `same_subtrees`: sets of suffixes; in each set, the provider of one of the groups is an ancestor of the providers of
    all others.
    `nested`: if False, at most one provider of each tree is used.
    """

    groups: tuple[RequestGroup, ...]
    limit: int | None = None
    isolate: bool = False
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtrees: tuple[frozenset[str], ...] = ()
    nested: bool = True

    def resource_classes(self) -> frozenset[str]:
        return frozenset(name for group in self.groups for name in group.resources)

    def traits(self) -> frozenset[str]:
        """Returns all traits that the request names."""
        trait_sets = [self.root_required, self.root_forbidden]
        for group in self.groups:
            trait_sets += [group.forbidden, *group.required]
        return frozenset().union(*trait_sets)

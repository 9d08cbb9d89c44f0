"""Finds allocation candidates: reads the trees that may serve a request, a batch at a time, until there are enough
candidates.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from sqlalchemy.orm import Session

from minova.db.models.placement import MAX_INT
from minova.placement import errors
from minova.placement.candidates import rows, sql_prefilter
from minova.placement.candidates.combine import Candidate, Combiner
from minova.placement.candidates.request import CandidateRequest
from minova.placement.candidates.tree import SHARES, Node, Tree, sharing_with
from minova.placement.providers import resource_classes, traits

LOG = logging.getLogger(__name__)

# The most candidates of a request without a limit: eight groups over eight devices can be combined in millions of ways.
MAX_CANDIDATES = 100_000
# Trees that are read together.
_FEWEST, _BATCH = 32, 1000


class AllocationCandidates(NamedTuple):
    """`nodes`: the providers for the summaries: whole trees of all providers that serve anything."""

    candidates: list[Candidate]
    nodes: list[Node]


def search(session: Session, request: CandidateRequest) -> AllocationCandidates:
    """Returns at most `request.limit` candidates, from as many trees as possible. Raises BadRequest for an unknown
    class or trait.
    """
    _check_names(session, request)
    in_trees = _in_trees(session, request)
    if in_trees is None or any(n > MAX_INT for group in request.groups for n in group.resources.values()):
        return AllocationCandidates([], [])
    trees = _Trees(session, request, in_trees)
    limit = min(request.limit or MAX_CANDIDATES, MAX_CANDIDATES)
    candidates = list(_distinct(_all(trees, Combiner(request, in_trees), request.limit), limit))
    if request.limit is None and len(candidates) == MAX_CANDIDATES:
        LOG.warning("Only the first %d allocation candidates were looked for: no limit was given", MAX_CANDIDATES)
    return AllocationCandidates(candidates, trees.summed_up(candidates))


def _check_names(session: Session, request: CandidateRequest) -> None:
    try:
        resource_classes.require(session, request.resource_classes())
    except errors.NotFound as error:
        raise errors.BadRequest(f"Invalid resource class in resources parameter: {error}") from None
    try:
        traits.require(session, request.traits())
    except errors.NotFound as error:
        raise errors.BadRequest(str(error)) from None


def _in_trees(session: Session, request: CandidateRequest) -> dict[str, int] | None:
    """Returns {suffix: root id} of the groups that name a tree; None if there is no such provider."""
    tree_uuids = {group.suffix: group.in_tree for group in request.groups if group.in_tree is not None}
    roots = rows.trees_of(session, set(tree_uuids.values()))
    if not roots.keys() >= set(tree_uuids.values()):
        return None
    return {suffix: roots[uuid] for suffix, uuid in tree_uuids.items()}


def _all(trees: "_Trees", combiner: Combiner, limit: int | None) -> Iterator[Candidate]:
    for batch in trees.batches(limit):
        each = [combiner.candidates_of(tree) for tree in batch]
        # With a limit, one candidate of each tree first, so that one wide tree does not use up the limit.
        yield from chain.from_iterable(each) if limit is None else _in_turns(each)


def _in_turns(each: Iterable[Iterator[Candidate]]) -> Iterator[Candidate]:
    waiting = deque(each)
    while waiting:
        candidates = waiting.popleft()
        for candidate in candidates:
            yield candidate
            waiting.append(candidates)
            break


def _distinct(candidates: Iterable[Candidate], limit: int) -> Iterator[Candidate]:
    """Removes duplicates: a candidate of sharing providers alone occurs once for each tree that they share with."""
    keys: set[frozenset[tuple[str, tuple[str, ...], int]]] = set()
    count = 0
    for candidate in candidates:
        if all(SHARES in node.traits for node in candidate.nodes):
            key = candidate.key()
            if key in keys:
                continue
            keys.add(key)
        yield candidate
        count += 1
        if count == limit:
            return


class _Trees:
    """The trees that were read so far."""

    def __init__(self, session: Session, request: CandidateRequest, in_trees: Mapping[str, int]) -> None:
        self._session = session
        self._request = request
        self._nested = rows.any_children(session)
        self._read = self._read_trees(rows.roots_of_sharing(session), aggregates=True)
        nodes = [node for tree in self._read.values() for node in tree]
        self._parents = {node.id: node.parent_id for node in nodes}
        self._sharing = [node for node in nodes if SHARES in node.traits]
        self._aggregates = bool(self._sharing) or any(
            group.member_of or group.forbidden_aggregates for group in request.groups
        )
        self._statement = sql_prefilter.roots(request, nested=self._nested, sharing=self._sharing, in_trees=in_trees)

    def _read_trees(self, root_ids: Iterable[int], *, aggregates: bool) -> dict[int, list[Node]]:
        return rows.read_trees(self._session, list(root_ids), nested=self._nested, aggregates=aggregates)

    def batches(self, limit: int | None) -> Iterator[list[Tree]]:
        size = _BATCH if limit is None else min(max(limit, _FEWEST), _BATCH)
        after = 0
        while True:
            parameters = {"after": after, "limit": size}
            root_ids = list(self._session.connection().scalars(self._statement, parameters))
            if not root_ids:
                return
            yield self._make(root_ids)
            if len(root_ids) < size:
                return
            after, size = root_ids[-1], _BATCH

    def _make(self, root_ids: list[int]) -> list[Tree]:
        trees = self._read_trees(
            [root_id for root_id in root_ids if root_id not in self._read], aggregates=self._aggregates
        )
        self._read.update(trees)
        self._parents.update({node.id: node.parent_id for nodes in trees.values() for node in nodes})
        return [self._tree(root_id, self._read[root_id]) for root_id in root_ids if root_id in self._read]

    def _tree(self, root_id: int, nodes: list[Node]) -> Tree:
        root = next(node for node in nodes if node.id == root_id)
        return Tree(root, nodes, sharing_with(nodes, self._sharing) if self._sharing else (), self._parents)

    def summed_up(self, candidates: Iterable[Candidate]) -> list[Node]:
        """Old clients do not know trees, so they get only the providers that serve the request."""
        serving = {node for candidate in candidates for node in candidate.holders()}
        root_ids = sorted({node.root_id for node in serving})
        nodes = [node for root_id in root_ids for node in self._read[root_id]]
        return nodes if self._request.nested else [node for node in nodes if node in serving]

"""Allocation candidates of minova and of OpenStack Placement, on random clouds:

    python -m tests.conformance.placement.candidates --python ENV/bin/python [--clouds 60] [--queries 40] [--seed 1]

ENV has OpenStack Placement in it. What is known to be different, and why, stands in `_missed`.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from minova.api.placement.candidates import body
from minova.db.engine import Database
from minova.db.models import Base
from minova.placement.candidates.query import parse
from minova.placement.candidates.search import search
from minova.placement.errors import BadRequest
from tests.conformance.placement import random_clouds
from tests.conformance.placement.minova_cloud import empty, put_cloud

THEIRS = Path(__file__).with_name("openstack_candidates.py")


def ours(db: Database, query: str, version: tuple[int, int]) -> tuple[int, Any]:
    try:
        request = parse(parse_qsl(query, keep_blank_values=True), version)
        with db.read() as session:
            return 200, json.loads(json.dumps(body(search(session, request), request, version)))
    except BadRequest as error:
        return 400, str(error)


def requests_of(answer: Any) -> Counter[str]:
    """Each allocation request as text, in one shape for all microversions."""
    counts: Counter[str] = Counter()
    for request in answer["allocation_requests"]:
        allocations = request["allocations"]
        if isinstance(allocations, list):
            allocations = {
                allocation["resource_provider"]["uuid"]: {"resources": allocation["resources"]}
                for allocation in allocations
            }
        mappings = {suffix: sorted(uuids) for suffix, uuids in request.get("mappings", {}).items()}
        counts[json.dumps([allocations, mappings], sort_keys=True)] += 1
    return counts


def summaries_of(answer: Any) -> Any:
    return {
        uuid: summary | ({"traits": sorted(summary["traits"])} if "traits" in summary else {})
        for uuid, summary in answer["provider_summaries"].items()
    }


def _missed(request: str, shared: set[str]) -> bool:
    """Whether OpenStack may have lost this: of a group without suffix that sharing providers serve alone it keeps one
    tree, whichever comes first, also where granular groups are served by several trees.
    """
    _, mappings = json.loads(request)
    return set(mappings.get("", [])) <= shared if mappings else bool(shared)


def compare(cloud: Any, version: tuple[int, int], right: tuple[int, Any], found: tuple[int, Any]) -> Iterator[str]:
    if right[0] != found[0]:
        yield f"status {found[0]} {found[1]}, should be {right[0]} {right[1]}"
    if right[0] != 200 or found[0] != 200:
        return
    theirs, mine = requests_of(right[1]), requests_of(found[1])
    shared = {provider["uuid"] for provider in cloud["providers"] if random_clouds.SHARES in provider["traits"]}
    lost = theirs - mine
    added = [request for request in mine - theirs if not _missed(request, shared)]
    if lost or added:
        yield f"missing {[*lost][:3]}, too many {added[:3]}"
    if theirs == mine and summaries_of(right[1]) != summaries_of(found[1]):
        yield f"summaries {summaries_of(found[1])}, should be {summaries_of(right[1])}"


def run(python: str, clouds: int, queries: int, seed: int) -> int:
    """The number of differences."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        db = Database(f"sqlite:///{folder}/minova.sqlite")
        Base.metadata.create_all(db.engine)
        with subprocess.Popen(
            [python, str(THEIRS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for number in range(seed, seed + clouds):
                draw = random.Random(number)
                cloud = random_clouds.cloud(draw)
                candidate_queries = [random_clouds.query(draw, cloud) for _ in range(queries)]
                process.stdin.write(json.dumps({"cloud": cloud, "queries": candidate_queries}) + "\n")
                process.stdin.flush()
                empty(db)
                put_cloud(db, cloud)
                for (text, query), right in zip(candidate_queries, json.loads(process.stdout.readline()), strict=True):
                    _count(counts, db, cloud, number, text, query, right)
        db.close()
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return counts["different"]


def _count(
    counts: Counter[str], db: Database, cloud: Any, number: int, text: str, query: str, right: tuple[int, Any]
) -> None:
    if right[0] == 500:
        counts["errors of OpenStack's own"] += 1
        return
    version = (1, int(text.partition(".")[2]))
    our_answer = ours(db, query, version)
    differences = list(compare(cloud, version, right, our_answer))
    for difference in differences:
        print(f"cloud {number}, {text}, {query}: {difference}", file=sys.stderr)
    counts["different" if differences else "equal"] += 1
    counts["with candidates"] += right[0] == 200 and bool(right[1]["allocation_requests"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--clouds", type=int, default=60)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(min(1, run(options.python, options.clouds, options.queries, options.seed)))


if __name__ == "__main__":
    main()

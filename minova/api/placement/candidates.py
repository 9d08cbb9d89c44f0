"""/allocation_candidates"""

from minova.api.placement import candidate_view
from minova.api.placement.call import Answer, Call, Placement, latest
from minova.placement import candidate_query, candidate_search


def list_candidates(placement: Placement, call: Call) -> Answer:
    asked = candidate_query.parse(call.query, call.version)
    with placement.reads.read() as session:
        found = candidate_search.search(session, asked)
    return Answer(body=candidate_view.body(found, asked, call.version), changed=latest([]))

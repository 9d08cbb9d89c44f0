"""/allocation_candidates"""

from minova.api.placement import candidate_view
from minova.api.placement.call import Answer, Call, Placement, latest
from minova.placement.candidates import query, search


def list_candidates(placement: Placement, call: Call) -> Answer:
    asked = query.parse(call.query, call.version)
    with placement.reads.read() as session:
        found = search.search(session, asked)
    return Answer(body=candidate_view.body(found, asked, call.version), changed=latest([]))

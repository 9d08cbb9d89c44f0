"""/resource_classes"""

from typing import Any

from minova.api.http.json_schema import check, newest
from minova.api.placement import schemas
from minova.api.placement.call import Answer, Call, Placement, latest
from minova.placement import errors
from minova.placement.providers import resource_classes


def _view(call: Call, name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": _href(call, name)}]}


def _href(call: Call, name: str) -> str:
    return call.href(f"/resource_classes/{name}")


def list_classes(placement: Placement, call: Call) -> Answer:
    with placement.reads.read() as session:
        classes = resource_classes.listing(session)
    custom = [record.updated_at for record in classes if record.updated_at is not None]
    return Answer(body={"resource_classes": [_view(call, record.name) for record in classes]}, changed=latest(custom))


def show(placement: Placement, call: Call) -> Answer:
    with placement.reads.read() as session:
        record = resource_classes.find(session, call.path["name"])
    return Answer(body=_view(call, record.name), changed=latest([record.updated_at]))


def create(placement: Placement, call: Call) -> Answer:
    name = call.body["name"]
    if not placement.change(lambda session: resource_classes.make(session, name)):
        raise errors.Conflict(f"Conflicting resource class already exists: {name}")
    return Answer(location=_href(call, name))


def rename(placement: Placement, call: Call) -> Answer:
    """Until microversion 1.6."""
    name, new = call.path["name"], call.body["name"]
    placement.change(lambda session: resource_classes.rename(session, name, new))
    return Answer(body=_view(call, new))


def ensure(placement: Placement, call: Call) -> Answer:
    """From microversion 1.7 on: makes the class if it does not exist."""
    name = call.path["name"]
    check({"name": name}, newest(schemas.RESOURCE_CLASS, call.version))
    made = placement.change(lambda session: resource_classes.make(session, name))
    return Answer(status=201 if made else 204, location=_href(call, name))


def delete(placement: Placement, call: Call) -> Answer:
    placement.change(lambda session: resource_classes.remove(session, call.path["name"]))
    return Answer()

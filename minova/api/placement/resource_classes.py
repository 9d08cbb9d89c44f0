"""/resource_classes"""

from typing import Any

from minova.api.http.definition import Route
from minova.api.http.json_schema import check, newest
from minova.api.placement import answers, schemas
from minova.api.placement.call import Answer, Placement, PlacementCall, latest
from minova.placement import errors
from minova.placement.providers import resource_classes


def _view(call: PlacementCall, name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": _href(call, name)}]}


def _href(call: PlacementCall, name: str) -> str:
    return call.href(f"/resource_classes/{name}")


def list_classes(placement: Placement, call: PlacementCall) -> Answer:
    with placement.reads.read() as session:
        classes = resource_classes.listing(session)
    custom = [record.updated_at for record in classes if record.updated_at is not None]
    return Answer(body={"resource_classes": [_view(call, record.name) for record in classes]}, changed=latest(custom))


def show(placement: Placement, call: PlacementCall) -> Answer:
    with placement.reads.read() as session:
        record = resource_classes.find(session, call.path["name"])
    return Answer(body=_view(call, record.name), changed=latest([record.updated_at]))


def create(placement: Placement, call: PlacementCall) -> Answer:
    name = call.body["name"]
    if not placement.change(lambda session: resource_classes.make(session, name)):
        raise errors.Conflict(f"Conflicting resource class already exists: {name}")
    return Answer(location=_href(call, name))


def rename(placement: Placement, call: PlacementCall) -> Answer:
    """Until microversion 1.6."""
    name, new = call.path["name"], call.body["name"]
    placement.change(lambda session: resource_classes.rename(session, name, new))
    return Answer(body=_view(call, new))


def ensure(placement: Placement, call: PlacementCall) -> Answer:
    """From microversion 1.7 on: makes the class if it does not exist."""
    name = call.path["name"]
    check({"name": name}, newest(schemas.RESOURCE_CLASS, call.version))
    is_new = placement.change(lambda session: resource_classes.make(session, name))
    return Answer(status=201 if is_new else 204, location=_href(call, name))


def delete(placement: Placement, call: PlacementCall) -> Answer:
    placement.change(lambda session: resource_classes.remove(session, call.path["name"]))
    return Answer()


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/resource_classes",
        rule="placement:resource_classes:list",
        handler=list_classes,
        answer={"resource_classes": list[answers.ClassAnswer]},
        since=(1, 2),
        accepts_json=True,
    ),
    Route(
        method="POST",
        path="/resource_classes",
        rule="placement:resource_classes:create",
        handler=create,
        status=201,
        since=(1, 2),
        body=schemas.RESOURCE_CLASS,
    ),
    Route(
        method="GET",
        path="/resource_classes/{name}",
        rule="placement:resource_classes:show",
        handler=show,
        answer=answers.ClassAnswer,
        since=(1, 2),
        accepts_json=True,
    ),
    Route(
        method="PUT",
        path="/resource_classes/{name}",
        rule="placement:resource_classes:update",
        handler=rename,
        since=(1, 2),
        until=(1, 6),
        body=schemas.RESOURCE_CLASS,
    ),
    Route(
        method="PUT",
        path="/resource_classes/{name}",
        rule="placement:resource_classes:update",
        handler=ensure,
        set_by_handler={201: "", 204: "for a class that there is"},
        since=(1, 7),
    ),
    Route(
        method="DELETE",
        path="/resource_classes/{name}",
        rule="placement:resource_classes:delete",
        handler=delete,
        status=204,
        since=(1, 2),
    ),
)

"""The routes that each resource of Neutron has, and the creation of one or several."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Handler, Route
from minova.api.network import answers
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.common import FieldsQuery, tagged

# The highest of the default quotas of such resources.
MAX_BULK = 500


class Creation(msgspec.Struct, frozen=True, kw_only=True):
    """How a resource is made.

    `fields`: of a new resource, in a body.
    `new`: returns the record for these fields. Raises an error if they are invalid, or the caller may not choose them.
    `add`: writes all records or none, and returns what the answer shows of each.
    """

    fields: type[msgspec.Struct]
    new: Callable[[NetworkApiCollaborators, Call, Any], Any]
    add: Callable[[NetworkApiCollaborators, Call, Sequence[Any]], Sequence[dict[str, Any]]]


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """The routes of a resource, as Neutron has them: list, create, show, update and delete.

    `name`: the singular, in bodies and policies.
    `update`, `changes`: None if the resource cannot be changed.
    """

    name: str
    answer: type[answers.StandardAttributes]
    index: Handler
    query: type[msgspec.Struct]
    creation: Creation
    show: Handler
    update: Handler | None = None
    changes: type[msgspec.Struct] | None = None
    delete: Handler

    @property
    def plural(self) -> str:
        return f"{self.name}s"

    def routes(self) -> tuple[Route, ...]:
        path = f"/v2.0/{self.plural.replace('_', '-')}"
        single, answer = f"{path}/{{{self.name}_id}}", {self.name: self.answer}
        read = f"get_{self.name}"
        routes = [
            Route(
                method="GET",
                path=path,
                rule=read,
                handler=self.index,
                answer=answers.page(self.plural, self.answer),
                query=self.query,
            ),
            Route(
                method="POST",
                path=path,
                rule=f"create_{self.name}",
                handler=self._create,
                answer={f"{self.name}?": self.answer, f"{self.plural}?": list[self.answer]},  # type: ignore[name-defined]
                body=self._body(),
                status=201,
            ),
            Route(method="GET", path=single, rule=read, handler=self.show, answer=answer, query=FieldsQuery),
            Route(method="DELETE", path=single, rule=f"delete_{self.name}", handler=self.delete, status=204),
        ]
        if self.update is not None:
            update = Route(
                method="PUT",
                path=single,
                rule=f"update_{self.name}",
                handler=self.update,
                answer=answer,
                body=self.changes,
            )
            routes.insert(3, update)
        return tuple(routes)

    def _body(self) -> type[msgspec.Struct]:
        """Returns the struct of a body that makes one resource, or several."""
        fields, several = self.creation.fields, tuple[self.creation.fields, ...]  # type: ignore[name-defined]
        unset = msgspec.UNSET
        return msgspec.defstruct(
            self.creation.fields.__name__.replace("New", "Create", 1),
            [(self.name, fields | msgspec.UnsetType, unset), (self.plural, several | msgspec.UnsetType, unset)],
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=True,
        )

    def _create(self, api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
        resource, several = getattr(call.body, self.name), getattr(call.body, self.plural)
        if (resource is msgspec.UNSET) == (several is msgspec.UNSET):
            raise errors.BadRequest(f"The body must have either '{self.name}' or '{self.plural}'.")
        if several is msgspec.UNSET:
            return {self.name: self._answers_of(api, call, (resource,))[0]}
        if not several:
            raise errors.BadRequest("Resources required")
        if len(several) > MAX_BULK:
            raise errors.BadRequest(f"One request makes {MAX_BULK} {self.plural} at most.")
        return {self.plural: self._answers_of(api, call, several)}

    def _answers_of(self, api: NetworkApiCollaborators, call: Call, bodies: Sequence[Any]) -> Sequence[dict[str, Any]]:
        return tagged(
            api, self.name, self.creation.add(api, call, [self.creation.new(api, call, body) for body in bodies])
        )

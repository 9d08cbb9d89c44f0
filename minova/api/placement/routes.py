"""Placement's one route table."""

from functools import partial

from minova.api.http.definition import Route
from minova.api.placement import (
    aggregates,
    allocations,
    candidates,
    inventories,
    providers,
    resource_classes,
    schemas,
    traits,
    usages,
    versions,
)

_PROVIDER = "/resource_providers/{uuid}"
_INVENTORIES = f"{_PROVIDER}/inventories"
_INVENTORY = f"{_INVENTORIES}/{{resource_class}}"
_CLASS = "/resource_classes/{name}"

_AdminRoute = partial(Route, admin=True)

ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/", handler=versions.show),
    # -- resource classes
    _AdminRoute(
        method="GET", path="/resource_classes", handler=resource_classes.list_classes, since=(1, 2), accepts_json=True
    ),
    _AdminRoute(
        method="POST",
        path="/resource_classes",
        handler=resource_classes.create,
        since=(1, 2),
        body=schemas.RESOURCE_CLASS,
    ),
    _AdminRoute(method="GET", path=_CLASS, handler=resource_classes.show, since=(1, 2), accepts_json=True),
    _AdminRoute(
        method="PUT",
        path=_CLASS,
        handler=resource_classes.rename,
        since=(1, 2),
        until=(1, 6),
        body=schemas.RESOURCE_CLASS,
    ),
    _AdminRoute(method="PUT", path=_CLASS, handler=resource_classes.ensure, since=(1, 7)),
    _AdminRoute(method="DELETE", path=_CLASS, handler=resource_classes.delete, since=(1, 2)),
    # -- resource providers
    _AdminRoute(
        method="GET",
        path="/resource_providers",
        handler=providers.list_providers,
        query=schemas.LIST_PROVIDERS,
        accepts_json=True,
    ),
    _AdminRoute(method="POST", path="/resource_providers", handler=providers.create, body=schemas.MAKE_PROVIDER),
    _AdminRoute(method="GET", path=_PROVIDER, handler=providers.show, accepts_json=True),
    _AdminRoute(method="PUT", path=_PROVIDER, handler=providers.change, body=schemas.CHANGE_PROVIDER),
    _AdminRoute(method="DELETE", path=_PROVIDER, handler=providers.delete),
    _AdminRoute(method="GET", path=_INVENTORIES, handler=inventories.list_inventories, accepts_json=True),
    _AdminRoute(method="POST", path=_INVENTORIES, handler=inventories.create, body=schemas.ADD_INVENTORY),
    _AdminRoute(method="PUT", path=_INVENTORIES, handler=inventories.replace, body=schemas.SET_INVENTORIES),
    _AdminRoute(method="DELETE", path=_INVENTORIES, handler=inventories.delete_all, since=(1, 5), absent=405),
    _AdminRoute(method="GET", path=_INVENTORY, handler=inventories.show, accepts_json=True),
    _AdminRoute(method="PUT", path=_INVENTORY, handler=inventories.change, body=schemas.CHANGE_INVENTORY),
    _AdminRoute(method="DELETE", path=_INVENTORY, handler=inventories.delete),
    _AdminRoute(method="GET", path=f"{_PROVIDER}/usages", handler=usages.of_provider, accepts_json=True),
    _AdminRoute(method="GET", path=f"{_PROVIDER}/aggregates", handler=aggregates.show, since=(1, 1), accepts_json=True),
    _AdminRoute(
        method="PUT",
        path=f"{_PROVIDER}/aggregates",
        handler=aggregates.replace,
        since=(1, 1),
        body=schemas.SET_AGGREGATES,
    ),
    _AdminRoute(method="GET", path=f"{_PROVIDER}/allocations", handler=allocations.of_provider, accepts_json=True),
    _AdminRoute(method="GET", path=f"{_PROVIDER}/traits", handler=traits.of_provider, since=(1, 6), accepts_json=True),
    _AdminRoute(
        method="PUT", path=f"{_PROVIDER}/traits", handler=traits.replace, since=(1, 6), body=schemas.SET_TRAITS
    ),
    _AdminRoute(method="DELETE", path=f"{_PROVIDER}/traits", handler=traits.delete_all, since=(1, 6)),
    # -- traits
    _AdminRoute(
        method="GET",
        path="/traits",
        handler=traits.list_traits,
        since=(1, 6),
        query=schemas.LIST_TRAITS,
        accepts_json=True,
    ),
    _AdminRoute(method="GET", path="/traits/{name}", handler=traits.show, since=(1, 6)),
    _AdminRoute(method="PUT", path="/traits/{name}", handler=traits.create, since=(1, 6)),
    _AdminRoute(method="DELETE", path="/traits/{name}", handler=traits.delete, since=(1, 6)),
    # -- allocations
    _AdminRoute(
        method="POST",
        path="/allocations",
        handler=allocations.replace_many,
        since=(1, 13),
        body=schemas.MANY_ALLOCATIONS,
    ),
    _AdminRoute(method="GET", path="/allocations/{consumer_uuid}", handler=allocations.show, accepts_json=True),
    _AdminRoute(
        method="PUT",
        path="/allocations/{consumer_uuid}",
        handler=allocations.replace,
        body=schemas.SET_ALLOCATIONS,
    ),
    _AdminRoute(method="DELETE", path="/allocations/{consumer_uuid}", handler=allocations.delete),
    _AdminRoute(
        method="GET",
        path="/allocation_candidates",
        handler=candidates.list_candidates,
        since=(1, 10),
        accepts_json=True,
    ),
    Route(
        method="GET",
        path="/usages",
        handler=usages.of_project,
        since=(1, 9),
        query=schemas.LIST_USAGES,
        accepts_json=True,
    ),
    _AdminRoute(method="POST", path="/reshaper", handler=allocations.reshape, since=(1, 30), body=schemas.RESHAPE),
)

"""Placement's one route table."""

from minova.api.placement import (
    aggregates,
    allocation_schemas,
    allocations,
    candidates,
    inventories,
    providers,
    reshaper,
    resource_classes,
    root,
    schemas,
    traits,
    usages,
)
from minova.api.placement.route import Route

_PROVIDER = "/resource_providers/{uuid}"
_INVENTORIES = f"{_PROVIDER}/inventories"
_INVENTORY = f"{_INVENTORIES}/{{resource_class}}"
_CLASS = "/resource_classes/{name}"

ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/", handler=root.show, everyone=True),
    # -- resource classes
    Route(method="GET", path="/resource_classes", handler=resource_classes.list_classes, since=(1, 2), shows=True),
    Route(
        method="POST",
        path="/resource_classes",
        handler=resource_classes.create,
        since=(1, 2),
        body=schemas.RESOURCE_CLASS,
    ),
    Route(method="GET", path=_CLASS, handler=resource_classes.show, since=(1, 2), shows=True),
    Route(
        method="PUT",
        path=_CLASS,
        handler=resource_classes.rename,
        since=(1, 2),
        until=(1, 6),
        body=schemas.RESOURCE_CLASS,
    ),
    Route(method="PUT", path=_CLASS, handler=resource_classes.ensure, since=(1, 7)),
    Route(method="DELETE", path=_CLASS, handler=resource_classes.delete, since=(1, 2)),
    # -- resource providers
    Route(
        method="GET",
        path="/resource_providers",
        handler=providers.list_providers,
        query=schemas.LIST_PROVIDERS,
        shows=True,
    ),
    Route(method="POST", path="/resource_providers", handler=providers.create, body=schemas.MAKE_PROVIDER),
    Route(method="GET", path=_PROVIDER, handler=providers.show, shows=True),
    Route(method="PUT", path=_PROVIDER, handler=providers.change, body=schemas.CHANGE_PROVIDER),
    Route(method="DELETE", path=_PROVIDER, handler=providers.delete),
    Route(method="GET", path=_INVENTORIES, handler=inventories.list_inventories, shows=True),
    Route(method="POST", path=_INVENTORIES, handler=inventories.create, body=schemas.ADD_INVENTORY),
    Route(method="PUT", path=_INVENTORIES, handler=inventories.replace, body=schemas.SET_INVENTORIES),
    Route(method="DELETE", path=_INVENTORIES, handler=inventories.delete_all, since=(1, 5), absent=405),
    Route(method="GET", path=_INVENTORY, handler=inventories.show, shows=True),
    Route(method="PUT", path=_INVENTORY, handler=inventories.change, body=schemas.CHANGE_INVENTORY),
    Route(method="DELETE", path=_INVENTORY, handler=inventories.delete),
    Route(method="GET", path=f"{_PROVIDER}/usages", handler=usages.of_provider, shows=True),
    Route(method="GET", path=f"{_PROVIDER}/aggregates", handler=aggregates.show, since=(1, 1), shows=True),
    Route(
        method="PUT",
        path=f"{_PROVIDER}/aggregates",
        handler=aggregates.replace,
        since=(1, 1),
        body=schemas.SET_AGGREGATES,
    ),
    Route(method="GET", path=f"{_PROVIDER}/allocations", handler=allocations.of_provider, shows=True),
    Route(method="GET", path=f"{_PROVIDER}/traits", handler=traits.of_provider, since=(1, 6), shows=True),
    Route(method="PUT", path=f"{_PROVIDER}/traits", handler=traits.replace, since=(1, 6), body=schemas.SET_TRAITS),
    Route(method="DELETE", path=f"{_PROVIDER}/traits", handler=traits.delete_all, since=(1, 6)),
    # -- traits
    Route(
        method="GET",
        path="/traits",
        handler=traits.list_traits,
        since=(1, 6),
        query=schemas.LIST_TRAITS,
        shows=True,
    ),
    Route(method="GET", path="/traits/{name}", handler=traits.show, since=(1, 6)),
    Route(method="PUT", path="/traits/{name}", handler=traits.create, since=(1, 6)),
    Route(method="DELETE", path="/traits/{name}", handler=traits.delete, since=(1, 6)),
    # -- allocations
    Route(
        method="POST",
        path="/allocations",
        handler=allocations.replace_many,
        since=(1, 13),
        body=allocation_schemas.MANY_ALLOCATIONS,
    ),
    Route(method="GET", path="/allocations/{consumer_uuid}", handler=allocations.show, shows=True),
    Route(
        method="PUT",
        path="/allocations/{consumer_uuid}",
        handler=allocations.replace,
        body=allocation_schemas.SET_ALLOCATIONS,
    ),
    Route(method="DELETE", path="/allocations/{consumer_uuid}", handler=allocations.delete),
    Route(
        method="GET",
        path="/allocation_candidates",
        handler=candidates.list_candidates,
        since=(1, 10),
        shows=True,
    ),
    Route(
        method="GET",
        path="/usages",
        handler=usages.of_project,
        since=(1, 9),
        query=schemas.LIST_USAGES,
        shows=True,
        everyone=True,
    ),
    Route(method="POST", path="/reshaper", handler=reshaper.change, since=(1, 30), body=allocation_schemas.RESHAPE),
)

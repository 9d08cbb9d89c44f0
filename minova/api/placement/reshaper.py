"""/reshaper"""

from minova.api.placement.allocations import wanted_of
from minova.api.placement.call import Answer, Call, Placement
from minova.api.placement.inventories import numbers_of
from minova.placement.allocations import reshape


def change(placement: Placement, call: Call) -> Answer:
    inventories = {
        uuid: (
            document["resource_provider_generation"],
            {name: numbers_of(numbers) for name, numbers in document["inventories"].items()},
        )
        for uuid, document in call.body["inventories"].items()
    }
    wanted = wanted_of(call.body["allocations"], call.version)
    placement.change(lambda session: reshape.reshape(session, inventories, wanted))
    return Answer(status=204)

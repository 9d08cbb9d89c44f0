"""`rescue`: the image and the password."""

from collections.abc import Mapping

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.actions.completion import ActionStart, Complete
from minova.api.compute.servers.boot_files import boot_file
from minova.api.compute.servers.guest_data import new_password
from minova.api.http.call import Call
from minova.db.api_queries.instances import InstanceRow
from minova.db.servers import instances
from minova.objects.actions.action import Arguments
from minova.objects.actions.rescue import RESCUE, RescueArguments, rescue_device
from minova.objects.catalogue.guest_hardware import Q35
from minova.objects.catalogue.kernel_boot import require_size


def _rescue(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    """Adds the record of the rescue image if the request names one, or else the configuration. As in Nova, the guest boots it with the
    kernel and ramdisk of the configuration, or else of the server's own image.

    The password is for guests that can read it. As in Nova, the status is 200.
    """
    assert isinstance(arguments, RescueArguments)
    shows_password = api.conf.api.enable_instance_password
    answer = {"adminPass": arguments.admin_password or new_password()} if shows_password else {}
    reference = arguments.rescue_image_ref
    if reference is None:
        reference = api.conf.libvirt.rescue_image_id or None
    own = instances.by_uuids(session, [row.uuid], networks=False)[row.uuid].image
    if reference is None and own is None:
        return ActionStart({}, answer, 200)
    image = own if reference is None else api.images.visible(session, reference, call)
    if image is None or (reference is not None and image.status != "active"):
        raise errors.BadRequest(f"Requested rescue image '{str(reference)[:64]}' is not supported")
    device = rescue_device(image.properties)
    machine = "" if own is None else own.properties.get("hw_machine_type", "")
    if device is not None and device.bus == "ide" and Q35 in machine:
        raise errors.BadRequest(
            f"Requested rescue bus 'ide' is not supported (hw_rescue_bus of the image): machine {machine[:64]} has no IDE"
        )
    options = api.conf.libvirt
    kernel = boot_file(api, call, session, options.rescue_kernel_id)
    ramdisk = boot_file(api, call, session, options.rescue_ramdisk_id)
    if reference is None and kernel is None and ramdisk is None:
        return ActionStart({}, answer, 200)
    booted = msgspec.structs.replace(
        image,
        kernel=kernel or (own.kernel if own is not None else None),
        ramdisk=ramdisk or (own.ramdisk if own is not None else None),
    )
    require_size(booted)
    return ActionStart({"rescue_image": msgspec.to_builtins(booted)}, answer, 200)


COMPLETE: Mapping[str, Complete] = {RESCUE.key: _rescue}

"""QEMU's agent in a guest, which images declare with `hw_qemu_guest_agent`. libvirt communicates with it.

A guest is not trusted: its agent may not answer, or answer incompletely, so each wait has a time limit.
"""

import logging
import re

import libvirt

from minova import errors
from minova.concurrency.outside_waits import waiting
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_properties import flag
from minova.virt.libvirt.error_codes import meaning

LOG = logging.getLogger(__name__)
# What an action waits for (`outside_waits`).
AGENT = "the agent in a guest"
# Time limits in seconds for a guest to change a password, and to freeze its file systems, which flushes their unwritten
# data.
PASSWORD_TIMEOUT, QUIESCE_TIMEOUT = 20, 60
_REFUSAL = re.compile(r"unable to execute QEMU agent command '[^']*'(?:: (?P<reason>.*))?", re.DOTALL)
# As many letters of the agent's reason as a report has room for.
LONGEST_REASON = 255
_SNAPSHOT_QUIESCED = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE


def has_agent(image: Image | None) -> bool:
    return _flag(image, "hw_qemu_guest_agent")


def requires_quiesce(image: Image | None) -> bool:
    return _flag(image, "os_require_quiesce")


def admin_user(image: Image | None) -> str:
    """Returns the user whose password is the server's admin password, as in Nova."""
    properties = image.properties if image is not None else {}
    if properties.get("os_admin_user"):
        return properties["os_admin_user"]
    return "Administrator" if properties.get("os_type", "").lower() == "windows" else "root"


def set_password(domain: libvirt.virDomain, image: Image | None, password: str) -> None:
    """Raises GuestAgentNotEnabled, GuestAgentUnresponsive or GuestAgentRefused. Other errors of libvirt are raised as they
    are. No text contains the password.
    """
    if not has_agent(image):
        raise errors.GuestAgentNotEnabled("QEMU guest agent is not enabled")
    try:
        domain.agentSetResponseTimeout(PASSWORD_TIMEOUT, 0)
        with waiting(AGENT):
            domain.setUserPassword(admin_user(image), password, 0)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_AGENT_UNRESPONSIVE:
            raise errors.GuestAgentUnresponsive(str(error)) from None
        if (reason := refusal(error)) is None:
            raise
        printable = reason.replace(password, "***") if password else reason
        raise errors.GuestAgentRefused(f"The guest's agent refuses the password: {printable}", printable) from None


def take_snapshot(domain: libvirt.virDomain, xml: str, flags: int, image: Image | None) -> None:
    """Take a snapshot, with the guest's file systems frozen if its agent can do it. Raises QuiesceFailed if it cannot
    and the image requires it.

    One call of libvirt freezes them, takes the snapshot and thaws them, so that a crash of this process leaves no guest
    frozen.
    """
    if has_agent(image):
        try:
            domain.agentSetResponseTimeout(QUIESCE_TIMEOUT, 0)
            with waiting(AGENT):
                domain.snapshotCreateXML(xml, flags | _SNAPSHOT_QUIESCED)
        except libvirt.libvirtError as error:
            if meaning(error) in {errors.DiskFull, errors.GuestBusy}:
                raise
            if requires_quiesce(image):
                text = f"The guest could not be quiesced: {error}"
                raise errors.QuiesceFailed(text, refusal(error) or "") from error
            LOG.info("The snapshot of %s is not quiesced: %s", domain.name(), error)
        else:
            return
    elif requires_quiesce(image):
        raise errors.QuiesceFailed("The image requires a quiesced snapshot: QEMU guest agent is not enabled")
    domain.snapshotCreateXML(xml, flags)


def refusal(error: libvirt.libvirtError) -> str | None:
    """Returns what the agent has answered, in one line of at most LONGEST_REASON letters; None if it has refused nothing.

    libvirt has no code of its own for it (`qemuAgentCheckError`), so the text decides.
    """
    match = _REFUSAL.search(str(error))
    if error.get_error_code() != libvirt.VIR_ERR_INTERNAL_ERROR or match is None:
        return None
    letters = (letter if letter.isprintable() else " " for letter in match["reason"] or "")
    return " ".join("".join(letters).split())[:LONGEST_REASON]


def _flag(image: Image | None, name: str) -> bool:
    return image is not None and flag(image.properties.get(name, ""))

"""What is asked of the agent in a guest, and what its silence means."""

from typing import Any

import libvirt
import pytest

from minova import errors
from minova.objects.catalogue.image import Image
from minova.virt.libvirt import guest_agent
from tests.fakes.libvirt_errors import libvirt_error

QUIESCED = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE


UNRESPONSIVE = libvirt_error("Guest agent is not responding", libvirt.VIR_ERR_AGENT_UNRESPONSIVE)


class Domain:
    """Stands for libvirt's; `failure` is raised where the agent is needed."""

    def __init__(self, failure: libvirt.libvirtError | None = None) -> None:
        self.failure = failure
        self.calls: list[tuple[Any, ...]] = []

    def name(self) -> str:
        return "instance-x"

    def agentSetResponseTimeout(self, seconds: int, flags: int) -> None:  # noqa: N802  - libvirt's name
        self.calls.append(("timeout", seconds))

    def setUserPassword(self, user: str, password: str, flags: int) -> None:  # noqa: N802
        self.calls.append((user, password))
        if self.failure is not None:
            raise self.failure

    def snapshotCreateXML(self, xml: str, flags: int) -> None:  # noqa: N802
        self.calls.append((xml, flags))
        if self.failure is not None and flags & QUIESCED:
            raise self.failure


def image(**properties: str) -> Image:
    return Image(id="i", properties={"hw_qemu_guest_agent": "yes", **properties})


@pytest.mark.parametrize(
    ("properties", "user"),
    [
        ({}, "root"),
        ({"os_type": "linux"}, "root"),
        ({"os_type": "windows"}, "Administrator"),
        ({"os_type": "windows", "os_admin_user": "boss"}, "boss"),
    ],
)
def test_password_is_of_the_administrator_that_the_image_names(properties: dict[str, str], user: str) -> None:
    domain = Domain()
    guest_agent.set_password(domain, image(**properties), "pw")
    assert domain.calls == [("timeout", guest_agent.PASSWORD_TIMEOUT), (user, "pw")]


@pytest.mark.parametrize("guest", [None, Image(id="i"), image(hw_qemu_guest_agent="no")])
def test_without_an_agent_no_guest_is_asked(guest: Image | None) -> None:
    domain = Domain()
    with pytest.raises(errors.GuestAgentNotEnabled):
        guest_agent.set_password(domain, guest, "pw")
    guest_agent.take_snapshot(domain, "<xml/>", 4, guest)
    assert domain.calls == [("<xml/>", 4)]


def test_an_agent_that_does_not_answer_is_told_from_one_that_refuses() -> None:
    with pytest.raises(errors.GuestAgentUnresponsive):
        guest_agent.set_password(Domain(UNRESPONSIVE), image(), "pw")
    broken = libvirt_error("child process died", libvirt.VIR_ERR_INTERNAL_ERROR)
    with pytest.raises(libvirt.libvirtError, match="child process died") as raised:
        guest_agent.set_password(Domain(broken), image(), "pw")
    assert "pw" not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (": child process has failed to set user password", "child process has failed to set user password"),
        (": BAD PASSWORD:\n\x1b[31m s3cr3t is a word", "BAD PASSWORD: [31m *** is a word"),
        (": " + "x" * 1000, "x" * guest_agent.LONGEST_REASON),
        ("", ""),
    ],
)
def test_refusal_of_the_agent_has_its_reason_in_one_line_and_without_the_password(answer: str, reason: str) -> None:
    text = f"internal error: unable to execute QEMU agent command 'guest-set-user-password'{answer}"
    domain = Domain(libvirt_error(text, libvirt.VIR_ERR_INTERNAL_ERROR))
    with pytest.raises(errors.GuestAgentRefused) as raised:
        guest_agent.set_password(domain, image(), "s3cr3t")
    assert raised.value.agent_reason == reason
    assert str(raised.value) == f"The guest's agent refuses the password: {reason}"


def test_snapshot_that_the_agent_refuses_has_its_reason() -> None:
    text = "internal error: unable to execute QEMU agent command 'guest-fsfreeze-freeze': a hook has failed"
    domain = Domain(libvirt_error(text, libvirt.VIR_ERR_INTERNAL_ERROR))
    with pytest.raises(errors.QuiesceFailed) as raised:
        guest_agent.take_snapshot(domain, "<xml/>", 4, image(os_require_quiesce="yes"))
    assert raised.value.agent_reason == "a hook has failed"


def test_snapshot_is_quiesced_in_one_call_of_libvirt() -> None:
    """So no process that is killed leaves a guest held."""
    domain = Domain()
    guest_agent.take_snapshot(domain, "<xml/>", 4, image())
    assert domain.calls == [("timeout", guest_agent.QUIESCE_TIMEOUT), ("<xml/>", 4 | QUIESCED)]


def test_snapshot_of_a_silent_guest_is_taken_unless_its_image_requires_quiescing() -> None:
    domain = Domain(UNRESPONSIVE)
    guest_agent.take_snapshot(domain, "<xml/>", 4, image())
    assert domain.calls[1:] == [("<xml/>", 4 | QUIESCED), ("<xml/>", 4)]
    domain = Domain(UNRESPONSIVE)
    with pytest.raises(errors.QuiesceFailed, match="not responding"):
        guest_agent.take_snapshot(domain, "<xml/>", 4, image(os_require_quiesce="yes"))
    assert domain.calls[1:] == [("<xml/>", 4 | QUIESCED)]


def test_quiescing_that_no_agent_can_do_is_refused() -> None:
    domain = Domain()
    with pytest.raises(errors.QuiesceFailed, match="guest agent is not enabled"):
        guest_agent.take_snapshot(domain, "<xml/>", 4, image(hw_qemu_guest_agent="no", os_require_quiesce="yes"))
    assert domain.calls == []


def test_full_disk_is_not_taken_for_a_silent_guest() -> None:
    full = libvirt_error("No space left on device", libvirt.VIR_ERR_SYSTEM_ERROR)
    with pytest.raises(libvirt.libvirtError, match="No space left"):
        guest_agent.take_snapshot(Domain(full), "<xml/>", 4, image(os_require_quiesce="yes"))

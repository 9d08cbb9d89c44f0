"""A removal that fails is reported with its reason, whatever the error is."""

from pathlib import Path

import pytest

from minova import errors
from minova.objects.servers.states import VmState
from minova.virt.driver.domains import RowHost
from minova.virt.libvirt.storage.disks import Disks
from tests.fakes.computes import CTX, HOST, Compute

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.HypervisorUnavailable("Failed to terminate process 1"), "Failed to terminate process 1"),
        (OSError(16, "Device or resource busy"), "[Errno 16] Device or resource busy"),
        (KeyError(), "KeyError"),
    ],
)
def test_what_kept_the_host_from_it_is_reported(error: Exception, reason: str) -> None:
    compute = Compute().start()
    compute.boot("i")
    with compute.hypervisor_fails("destroy", error=error):
        compute.delete("i")
    assert compute.conductor.delete_failures == [("i", HOST, reason)]
    compute.manager.terminate_instance(CTX, "i", None)
    compute.run()
    assert compute.conductor.instances["i"].vm_state is VmState.DELETED


def test_a_conductor_that_does_not_know_the_report_is_no_reason_to_fail() -> None:
    compute = Compute().start()
    compute.boot("i")
    compute.conductor.on_call = refuse_report
    with compute.hypervisor_fails("destroy", error=errors.HypervisorUnavailable("busy")):
        compute.delete("i")
    assert "delete_failed" in compute.conductor.calls


def refuse_report(method: str) -> None:
    if method == "delete_failed":
        raise errors.PeerTooOld("delete_failed needs 1.6")


def test_conductor_too_old_to_know_the_host_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """During an upgrade that is the rule, and the domain is removed all the same."""
    compute = Compute().start()
    compute.boot("i")
    compute.conductor.on_call = refuse_hosts
    compute.manager.collaborators.builder.removals.clean_up(CTX, "i", 1)
    assert "hosts_of_instances" in compute.conductor.calls
    assert compute.hypervisor.domains() == ()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


def refuse_hosts(method: str) -> None:
    if method == "hosts_of_instances":
        raise errors.PeerTooOld("hosts_of_instances needs conductor 1.6")


def test_files_that_cannot_be_removed_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / UUID / "sub").mkdir(parents=True)

    def busy(path: Path, *_: object) -> None:
        raise OSError(16, "Device or resource busy", str(path))

    monkeypatch.setattr("shutil.rmtree", busy)
    with pytest.raises(errors.HypervisorError, match=f"{UUID}/sub cannot be removed: Device or resource busy"):
        Disks(tmp_path).remove(UUID, "hv1", RowHost())

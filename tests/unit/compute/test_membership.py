"""To which cloud a host belongs, and how it takes the answers of conductors."""

from pathlib import Path

import pytest

from minova import errors
from minova.compute.membership import CloudMembership
from minova.objects.hosts.cloud import LOST, OTHER_CLOUD, CloudState, CounterMark, WitnessRecord
from minova.safe_mode import SafeMode
from minova.witness import Witness

STATE = CloudState(uuid="own", history="first", marks=(CounterMark("a", 1, 1.0),))
SAFE = CloudState(uuid="own", history="first", marks=(CounterMark("b", 1, 2.0),), safe_mode=LOST)


class Host:
    """A host that has learned its cloud."""

    def __init__(self, folder: Path) -> None:
        self.learned: list[str] = []
        self.safe_mode = SafeMode()
        self.file = folder / "cloud"
        self.membership = CloudMembership(
            self.safe_mode, Witness(self.file), learn=self.learned.append, ticks=lambda: 0.0
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    host.membership.take(STATE)
    return host


def test_a_new_host_joins_the_cloud_of_the_first_answer(host: Host) -> None:
    assert (host.learned, host.safe_mode.reason) == (["own"], None)
    assert Witness(host.file).seen == WitnessRecord(uuid="own", history="first", marks=STATE.marks)


def test_a_restarted_host_belongs_to_its_cloud_before_any_answer(host: Host, tmp_path: Path) -> None:
    assert Host(tmp_path).learned == ["own"]


def test_answers_of_the_last_release_change_nothing(host: Host) -> None:
    host.membership.take(SAFE)
    host.membership.take(None)
    assert host.safe_mode.reason == LOST


def test_in_safe_mode_it_learns_nothing(host: Host) -> None:
    host.membership.take(SAFE)
    assert host.membership.seen == WitnessRecord(uuid="own", history="first", marks=STATE.marks)


def test_the_end_of_safe_mode_is_told_once(host: Host) -> None:
    assert host.membership.take(SAFE) is False
    assert host.membership.take(STATE) is True
    assert host.membership.take(STATE) is False
    assert host.safe_mode.reason is None


@pytest.mark.parametrize("safe_mode", [None, LOST])
def test_no_answer_of_another_cloud_moves_it(host: Host, safe_mode: str | None) -> None:
    host.membership.take(CloudState(uuid="other", history="x", safe_mode=safe_mode))
    assert host.safe_mode.reason == OTHER_CLOUD
    assert host.membership.seen == WitnessRecord(uuid="own", history="first", marks=STATE.marks)
    assert host.learned == ["own"]


def test_a_refused_message_holds_it_until_its_own_cloud_answers(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    host.membership.refused(errors.AnotherCloud("the message is of another cloud"))
    assert host.safe_mode.reason == OTHER_CLOUD
    assert f"remove {host.file}" in caplog.text
    host.membership.take(STATE)
    assert host.safe_mode.reason is None

"""`minova-manage machine-type`, with the texts and exit codes of `nova-manage libvirt`."""

from pathlib import Path

import pytest

from minova.cmd import manage
from tests.functional.api.conftest import Cloud

ABSENT = "6d0c8a5e-0000-4000-8000-00000000000c"


class Operator:
    def __init__(self, folder: Path) -> None:
        self.conf = folder / "minova.conf"
        self.conf.write_text(f"[database]\nconnection = sqlite:///{folder}/minova.sqlite\n")
        assert self.run("db", "upgrade") == 0
        self.cloud = Cloud(folder).with_catalogue()
        self.uuids = [self.cloud.make_server(name)["id"] for name in ("one", "two")]

    def run(self, *words: str) -> int:
        return manage.run(["--config-file", str(self.conf), *words])

    def machine(self, *words: str) -> int:
        return self.run("machine-type", *words)

    def state(self, vm_state: str) -> None:
        self.cloud.conductor.edit(self.uuids[0], vm_state=vm_state, task_state=None)


@pytest.fixture
def operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operator:
    operator = Operator(tmp_path)
    capsys.readouterr()
    return operator


def test_types_are_listed_set_and_missed(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = operator.uuids
    assert operator.machine("list", first) == 3
    assert capsys.readouterr().out == f"No machine type registered for instance {first}\n"
    assert operator.machine("list", ABSENT) == 2
    assert capsys.readouterr().err == f"Instance {ABSENT} could not be found.\n"
    assert operator.machine("list-unset") == 3
    assert capsys.readouterr().out.split() == [first, second]
    operator.state("stopped")
    assert operator.machine("update", first, "pc-q35-7.2") == 0
    assert capsys.readouterr().out == f"Updated instance {first} machine type to pc-q35-7.2 (previously None)\n"
    assert operator.machine("list", first) == 0
    assert operator.machine("list") == 0
    assert capsys.readouterr().out == f"pc-q35-7.2\n{first} pc-q35-7.2\n{second} -\n"
    assert operator.machine("update", "--force", second, "whatever") == 0
    capsys.readouterr()
    assert operator.machine("list-unset") == 0
    assert capsys.readouterr().out == "No instances found without hw_machine_type set.\n"


@pytest.mark.parametrize(
    ("vm_state", "wanted", "code", "words"),
    [
        ("active", "pc-q35-8.0", 3, "in vm_state active. Cannot update_machine_type while the instance is in this state."),
        ("stopped", "pc-i440fx-7.2", 4, "Cannot update machine type pc-q35-7.2 to pc-i440fx-7.2."),
        ("stopped", "q35", 4, "Cannot update machine type pc-q35-7.2 to q35."),
        ("shelved", "isapc", 5, "Machine type isapc is not supported."),
        ("shelved_offloaded", "pc-q35-8.0", 0, ""),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    operator: Operator, capsys: pytest.CaptureFixture[str], vm_state: str, wanted: str, code: int, words: str
) -> None:
    first = operator.uuids[0]
    operator.machine("update", "--force", first, "pc-q35-7.2")
    operator.state(vm_state)
    assert operator.machine("update", first, wanted) == code
    assert words in capsys.readouterr().err
    operator.machine("list", first)
    assert capsys.readouterr().out.endswith((wanted if code == 0 else "pc-q35-7.2") + "\n")

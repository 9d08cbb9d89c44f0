"""A build for which no thread could be had counted as running, until it had taken too long."""

from collections.abc import Callable

import pytest

from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute


def test_a_build_that_cannot_begin_is_reported_by_the_next_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Compute().start()
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)

    def no_thread(instance_uuid: str, work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(compute.manager._workers, "build", no_thread)
    with pytest.raises(RuntimeError):
        compute.manager.build_and_run_instance(CTX, message)
    monkeypatch.undo()
    compute.manager.update_available_resource()
    compute.run()
    assert [failure.reason for failure in compute.conductor.failures] == [
        "The build could not begin: can't start new thread"
    ]

"""What is counted, and the page that shows it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from minova import conf as configuration
from minova import metrics


@pytest.fixture
def conf(tmp_path: Path) -> Callable[[str], object]:
    def read(text: str) -> object:
        path = tmp_path / "minova.conf"
        path.write_text(f"[prometheus]\n{text}\n")
        return configuration.load(["--config-file", str(path)], "minova-test")

    return read


def count(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


def test_what_goes_well_and_what_fails_is_timed_apart() -> None:
    labels = {"side": "server", "method": "timed_here"}
    with metrics.timed(metrics.RPC_SECONDS, *labels.values()):
        pass
    with pytest.raises(KeyError), metrics.timed(metrics.RPC_SECONDS, *labels.values()):
        raise KeyError
    assert count("minova_rpc_seconds_count", **labels, result="ok") == 1
    assert count("minova_rpc_seconds_count", **labels, result="error") == 1


def test_there_is_no_page_unless_it_is_asked_for(conf: Callable[..., object]) -> None:
    assert metrics.page(conf(""), 9790) == []  # type: ignore[arg-type]


def test_each_process_has_a_port_of_its_own_unless_one_is_set(conf: Callable[..., object]) -> None:
    for text, port in (
        ("enabled = true", 9790),
        ("enabled = true\nport = 9999", 9999),
        ("enabled = true\nport = 0", 0),
    ):
        (page,) = metrics.page(conf(text), 9790)  # type: ignore[arg-type]
        assert page._address == ("127.0.0.1", port)

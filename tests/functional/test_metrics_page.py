import socket
from urllib.request import urlopen

import pytest

from minova import errors, metrics


def test_the_page_shows_what_was_counted() -> None:
    metrics.CLAIMS.labels("refused", "numa").inc()
    page = metrics.MetricsPage("127.0.0.1", 0)
    page.start()
    try:
        with urlopen(f"http://127.0.0.1:{page.port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    finally:
        page.stop()
    assert 'minova_claims_total{reason="numa",result="refused"}' in text
    assert "process_resident_memory_bytes" in text


def test_a_taken_port_is_said_by_the_name_of_its_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        page = metrics.MetricsPage("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(
            errors.InvalidConfiguration, match=r"\[prometheus\] listen, port: 127.0.0.1 port \d+ cannot"
        ):
            page.start()
        page.stop()

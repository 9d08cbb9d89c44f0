import pytest

from minova.objects.redact import redact_hosts


@pytest.mark.parametrize(
    ("text", "names", "told"),
    [
        ("h1: no space on h1", ["h1"], "no space on the host"),
        ("Build failed in 2 attempts. h1: gone; h10: gone", ["h1", "h10"], "Build failed in 2 attempts. gone; gone"),
        ("h1.example.org is down. Ask for h1.", ["h1", "h1.example.org"], "the host is down. Ask for the host."),
        ("h12, h1-b and xh1 are others", ["h1"], "h12, h1-b and xh1 are others"),
        ("a.b is not axb", ["a.b"], "the host is not axb"),
        ("nothing is named", [], "nothing is named"),
        ("nothing is named", [""], "nothing is named"),
    ],
)
def test_host_names_are_removed(text: str, names: list[str], told: str) -> None:
    assert redact_hosts(text, names) == told

"""What the doctor says of the broker."""

from pathlib import Path

from minova import conf as configuration
from minova.health.doctor import broker


def test_bug_doctor_says_nothing_of_the_user_that_it_needs(tmp_path: Path) -> None:
    """A cloud with a user for each service has no user for minova-manage."""
    file = tmp_path / "minova.conf"
    file.write_text(
        "[DEFAULT]\ntransport_url = rabbit://minova:secret@localhost:5672/\n[broker]\nper_host_users = true\n"
    )
    conf = configuration.load(["--config-file", str(file)], "test")
    (finding,) = broker.check(conf, ["conductor"])
    assert "minova-manage.conf" in finding.mend
    assert "secret" not in f"{finding}"

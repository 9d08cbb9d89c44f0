"""The sample file is generated from the options: this holds it to them."""

from pathlib import Path

from oslo_config import generator

from tests import limits

ROOT = Path(__file__).parents[3]


def test_the_sample_is_what_the_generator_makes_of_the_options(tmp_path: Path) -> None:
    generated_file = tmp_path / "minova.conf.sample"
    with limits.defaults():
        generator.main(
            ["--config-file", str(ROOT / "etc/minova/config-generator.conf"), "--output-file", str(generated_file)]
        )
    assert (ROOT / "etc/minova/minova.conf.sample").read_text() == generated_file.read_text(), (
        "run: oslo-config-generator --config-file etc/minova/config-generator.conf"
    )

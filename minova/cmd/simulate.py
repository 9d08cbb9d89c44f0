"""minova-manage simulate: shows what the scheduler would answer to a scenario file."""

import sys
from pathlib import Path

import msgspec
from oslo_config import cfg

from minova import conf as configuration
from minova import errors
from minova.hardware.pci_alias import Aliases, parse_aliases
from minova.scheduler.extensions import load_filters, load_weighers
from minova.simulate.chains import chain, weighers
from minova.simulate.scenario import Scenario, read
from minova.simulate.simulation import Settings, simulate


def answer(data: bytes) -> bytes:
    """Returns the answer to a scenario, as JSON. Raises MinovaError, which says what is wrong with the scenario and
    where.
    """
    scenario = read(data)
    conf = options_of(scenario)

    def aliases() -> Aliases:
        return parse_aliases(conf.pci.alias, pci_in_placement=conf.filter_scheduler.pci_in_placement)

    settings = Settings(
        filters=load_filters(conf),
        weighers=load_weighers(conf),
        aliases=aliases,
        service_down_time=conf.service_down_time,
        packing=conf.compute.packing_host_numa_cells_allocation_strategy,
    )
    return msgspec.json.encode(simulate(scenario, settings))


def options_of(scenario: Scenario) -> cfg.ConfigOpts:
    """Returns the default options with the scenario's changes. Raises InvalidConfiguration, which names the option."""
    conf = configuration.new()
    conf([], project="minova", default_config_files=[], default_config_dirs=[])
    for name, value in scenario.config.items():
        configuration.override(conf, name, value)
    if scenario.filters is not None:
        configuration.override(conf, "filter_scheduler.enabled_filters", chain(scenario.filters))
    configured_weighers = [weigher for name in conf.filter_scheduler.weight_classes for weigher in weighers(name)]
    configuration.override(conf, "filter_scheduler.weight_classes", configured_weighers)
    configuration.check(conf)
    return conf


def run(path: str, *, pretty: bool) -> None:
    """Print the answer. Raises BadRequest, which names the file and what is wrong with it."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise errors.BadRequest(f"{path}: {error.strerror}") from None
    try:
        text = answer(data)
    except errors.MinovaError as error:
        raise errors.BadRequest(f"{'standard input' if path == '-' else path}: {error}") from error
    sys.stdout.buffer.write(msgspec.json.format(text, indent=2) if pretty else text)
    sys.stdout.buffer.write(b"\n")

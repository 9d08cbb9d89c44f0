"""`minova-manage bootstrap`: makes the usual flavors and a first network in the tables of a new cloud. Services need not run."""

import uuid
from typing import Any, cast

from oslo_config import cfg
from sqlalchemy import select

from minova import errors
from minova.cmd.conductor import make_manager
from minova.cmd.startup import database
from minova.cmd.startup.usual_flavors import FLAVORS
from minova.conductor.manager import ConductorCollaborators
from minova.context import service_context
from minova.db import models
from minova.db.engine import Database
from minova.db.networks import networks
from minova.db.schema import require_schema
from minova.objects.network import addresses
from minova.objects.network.network import Network, Subnet

NONE = "none"
NAME = "default"
NEXT = """
Next, when minova-api, minova-conductor, minova-scheduler and one minova-compute run (minova service list):

    minova image create debian --disk-format qcow2 --file debian-12-generic-amd64.qcow2
    minova server create web --flavor m1.small --image debian --wait
    minova server list"""


def run(conf: cfg.ConfigOpts) -> None:
    """Idempotent. Raises BadRequest if the range is invalid, Forbidden if the project has used up its quota of networks."""
    command = conf.command
    db = database.opened(conf, readonly=False)
    try:
        require_schema(db)
        writes = _writes(conf, db)
        if not command.no_flavors:
            _make_flavors(writes)
        if command.range == NONE:
            print("No network was made, as --range none says.")
        elif conf.neutron.backend == "neutron":
            print("No network was made: Neutron has the networks of this cloud.")
        else:
            _make_network(db, writes, command.range, command.project)
    finally:
        db.close()
    print(NEXT)


def _writes(conf: cfg.ConfigOpts, db: Database) -> ConductorCollaborators:
    """Returns the parts of a conductor that write the tables: with their checks and quotas, and without background work."""
    manager = make_manager(conf, db, cast(Any, None), _no_compute, host=str(conf.host), spawn=lambda work: None)
    return manager.collaborators


def _no_compute(host: str) -> Any:
    raise AssertionError("no host is told of a network without guests")


def _make_flavors(writes: ConductorCollaborators) -> None:
    for flavor in FLAVORS:
        try:
            writes.flavors.create_flavor(service_context(), flavor=flavor)
        except errors.Conflict:
            print(f"Flavor {flavor.name} stays: its name or id is taken.")
        else:
            print(
                f"Flavor {flavor.name}: {flavor.vcpus} VCPUs, {flavor.memory_mb} MB of memory, a disk of {flavor.root_gb} GB."
            )


def _make_network(db: Database, writes: ConductorCollaborators, text: str, project_id: str) -> None:
    block = addresses.parse_cidr(text, 4)
    network_id, subnet_id = (
        str(uuid.uuid5(uuid.NAMESPACE_URL, f"minova:bootstrap:{kind}")) for kind in ("network", "subnet")
    )
    with db.read() as session:
        existing_network = networks.find(session, network_id)
        other = session.scalar(select(models.Network.name).limit(1))
    if existing_network is None and other is not None:
        print(f"No network was made: the cloud has a network already ({other or 'without a name'}).")
        return
    if existing_network is None:
        network = Network(id=network_id, name=NAME, project_id=project_id, shared=True)
        writes.networks.create_networks(service_context(), networks=(network,))
    elif existing_network.subnets:
        print(f"Network {existing_network.name} stays as it is.")
        return
    gateway = addresses.default_gateway(block)
    subnet = Subnet(
        id=subnet_id,
        network_id=network_id,
        name=NAME,
        project_id=project_id,
        ip_version=4,
        cidr=str(block),
        gateway_ip=gateway,
        allocation_pools=addresses.default_pools(block, gateway),
    )
    writes.subnets.create_subnets(service_context(), subnets=(subnet,))
    print(f"Network {NAME}: {block}, shared by all projects, with DHCP, metadata and a route out through each host.")

"""tempest.conf: where the cloud is, and which features it has. What minova serves is on."""

from pathlib import Path

from minova.api.network.overview.versions import EXTENSIONS
from tests.conformance.tempest.cloud import FILTERS, HOSTS, NETWORK, Cloud
from tests.servers.keystone import PASSWORD, REGION

CONF = """
[DEFAULT]
log_file = {folder}/tempest.log
use_stderr = false
[oslo_concurrency]
lock_path = {folder}/locks
[auth]
use_dynamic_credentials = true
# Tempest's own networks have routers, which minova does not serve: all projects use a network that is shared.
create_isolated_networks = false
admin_username = admin
admin_password = {password}
admin_project_name = admin
admin_domain_name = Default
[identity]
uri_v3 = {keystone}
region = {region}
[service_available]
cinder = false
swift = false
horizon = false
[enforce_scope]
nova = true
neutron = true
glance = true
[compute]
image_ref = {images[0]}
image_ref_alt = {images[1]}
flavor_ref = {flavors[0]}
flavor_ref_alt = {flavors[1]}
fixed_network_name = {network}
min_compute_nodes = {hosts}
min_microversion = 2.1
max_microversion = latest
build_timeout = 120
[compute-feature-enabled]
hostname_fqdn_sanitization = true
dhcp_domain = novalocal
change_password = true
console_output = true
pause = true
shelve = true
suspend = true
rescue = true
stable_rescue = true
interface_attach = true
snapshot = true
personality = true
config_drive = true
vnc_console = true
serial_console = true
scheduler_enabled_filters = {filters}
nova_policy_roles = admin,manager,member,reader,service
resize = true
cold_migration = true
shelve_migrate = true
live_migration = true
block_migration_for_live_migration = true
# There is no volume service, and consoles are VNC and serial.
attach_encrypted_volume = false
swap_volume = false
volume_multiattach = false
spice_console = false
[network-feature-enabled]
floating_ips = false
api_extensions = {extensions}
port_security = false
ipv6 = true
ipv6_subnet_attributes = true
[network]
project_networks_reachable = false
shared_physical_network = true
[validation]
# The guests are those of the fake driver.
run_validation = false
connect_method = fixed
"""


def write(folder: Path, cloud: Cloud) -> Path:
    (folder / "locks").mkdir()
    file = folder / "tempest.conf"
    file.write_text(
        CONF.format(
            folder=folder,
            password=PASSWORD,
            region=REGION,
            network=NETWORK,
            hosts=len(HOSTS),
            filters=",".join(FILTERS),
            extensions=",".join(extension[0] for extension in EXTENSIONS),
            **cloud._asdict(),
        )
    )
    return file

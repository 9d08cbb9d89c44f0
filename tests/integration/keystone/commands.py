"""The commands of the unchanged `openstack` for Compute and Image: each is run here, or is refused.

`until` and `keep`: tests/openstack_commands.py. test_openstack_client.py runs them, and says if a command is missing.
"""

# What a command must come to before the next one may be sent.
STATE = "server show vm -f value -c status -c OS-EXT-STS:task_state"
ACTIVE = f"until 'None ACTIVE' {STATE}"


def then(status: str, command: str) -> tuple[str, str]:
    return command, f"until 'None {status}' {STATE}"


# {disk}, {key}: files.
OF_OPERATORS = (
    "flavor create secret --ram 128 --disk 1 --private --project demo",
    "flavor set secret --description 'of demo alone' --property hw:cpu_policy=shared",
    "flavor list --all --long",
    "flavor show secret",
    "flavor unset secret --project demo --property hw:cpu_policy",
    "flavor delete secret",
    "aggregate create racks --property power=a",
    "aggregate set racks --name rows --property cooling=b",
    "aggregate add host rows h1",
    "aggregate list --long",
    "aggregate show rows",
    "aggregate unset rows --property cooling",
    "aggregate remove host rows h1",
    "aggregate delete rows",
    "availability zone list --compute --long",
    "compute service set h1 nova-compute --disable --disable-reason repairs",
    "compute service set h1 nova-compute --enable",
    "compute service list --long --service nova-compute",
    "hypervisor list --long --matching h1",
    "hypervisor show h1",
    "hypervisor stats show --os-compute-api-version 2.87",
    "quota set demo --cores 64 --ports 900 --routers 3 --floating-ips 2",
    "quota show demo --network --usage",
    "quota list --compute",
    "quota show demo --compute",
    "quota delete demo --compute",
    "usage list",
    "server migration list",
    "extension list --compute",
    "extension show net-mtu",
    "versions show --service compute",
    "host list --os-compute-api-version 2.1",
    "host show h1 --os-compute-api-version 2.1",
    "host set h1 --enable --os-compute-api-version 2.1",
    "server list --all-projects --host h1",
)
OF_USERS = (
    "network create story-net",
    "subnet create story-subnet --network story-net --subnet-range 10.77.0.0/24",
    "port create story-port --network story-net",
    "security group create story-group",
    "image create story-image --disk-format raw --file {disk} --property os_distro=debian",
    "image list --property os_distro=debian",
    "image show story-image",
    "image set story-image --min-ram 64 --tag kept --property role=web",
    "image unset story-image --tag kept --property role",
    "image save story-image --file {disk}.saved",
    "image add project story-image other",
    "image member list story-image",
    "image remove project story-image other",
    "image create staged --disk-format raw --container-format bare",
    "image stage staged --file {disk}",
    # Without the last word it asks for what a Glance with one store refuses, and does not show the refusal.
    "image import staged --method glance-direct --disallow-failure",
    "image import info",
    "until active image show staged -f value -c status",
    "image delete staged",
    "keypair create story-key --private-key {key}",
    "keypair list",
    "keypair show story-key",
    "limits show --absolute",
    "server group create story-servers --policy anti-affinity",
    "server group list --long",
    "server group show story-servers",
    "server create vm --flavor story --image story-image --network story-net --key-name story-key --server-group story-servers --wait",
    "server list --long",
    "usage show",
    "server set vm --property role=web --tag kept --description 'of the story'",
    "server unset vm --property role --tag kept --description",
    "keep request server event list vm -f value -c 'Request ID'",
    "server volume list vm",
    "server event show vm $request",
    "console log show vm",
    "console url show vm --novnc",
    "server add security group vm story-group",
    "server remove security group vm story-group",
    "server add network vm story-net",
    "server add port vm story-port",
    "server remove port vm story-port",
    "server add fixed ip vm story-net --fixed-ip-address 10.77.0.77",
    "server remove network vm story-net",
    # As in Nova, a detachment is answered before it ends. Until then stopping the server gets 409.
    "until '' port list --server vm --network story-net -f value -c ID",
    *then("SHUTOFF", "server stop vm"),
    *then("ACTIVE", "server start vm"),
    *then("PAUSED", "server pause vm"),
    *then("ACTIVE", "server unpause vm"),
    *then("SUSPENDED", "server suspend vm"),
    *then("ACTIVE", "server resume vm"),
    *then("RESCUE", "server rescue vm"),
    *then("ACTIVE", "server unrescue vm"),
    *then("ACTIVE", "server dump create vm"),
    "server lock vm --reason repairs",
    "server unlock vm",
    "server reboot vm --hard --wait",
    "server rebuild vm --image story-image --wait",
    "server image create vm --name story-shot --wait",
    "server backup create vm --name story-saved --wait",
    "server shelve vm --wait",
    "server unshelve vm --wait",
    "server delete vm --wait",
    "server group delete story-servers",
    "keypair delete story-key",
    "image delete story-image story-shot story-saved",
    "security group delete story-group",
    "port delete story-port",
    "network delete story-net",
    "network create left-net",
    "subnet create left-subnet --network left-net --subnet-range 10.78.0.0/24",
    "port create left-port --network left-net",
    "project cleanup --auth-project --dry-run",
    "project cleanup --auth-project --auto-approve",
    "until '' network list -f value -c Name --project demo",
)
# While there is an image.
OF_CACHES = (
    "aggregate create caching",
    "aggregate add host caching h1",
    "aggregate cache image caching story-image",
    "aggregate remove host caching h1",
    "aggregate delete caching",
)
MOVED = f"until 'None VERIFY_RESIZE' {STATE}"
RUNNING = "server migration list --server vm --status running -f value -c Id"
# With an ID the client mixes up the server and the migration: its own error, which it also has with Nova.
BY_UUID = "--os-compute-api-version 2.59"
RUNNING_UUID = f"server migration list --server vm --status running -f value -c UUID {BY_UUID}"
MIGRATES = "until running server migration list --server vm --status running -f value -c Status"
# Operators' commands while vm is on h2 and there is h1 beside it, whose live migrations take as long as they may. After the last
# one vm is on h2 again.
OF_MOVES = (
    *("server resize vm --flavor larger", MOVED, "server resize confirm vm", ACTIVE),
    *("server resize vm --flavor story", MOVED, "server resize revert vm", ACTIVE),
    *("server migrate vm", MOVED, "server migrate confirm vm", ACTIVE),
    *("server migrate vm", MOVED, "server migrate revert vm", ACTIVE),
    *("server migrate vm --host h1", MOVED, "server migration confirm vm", ACTIVE),
    *("server migrate vm", MOVED, "server migration revert vm", ACTIVE),
    *(
        "server migrate vm --live-migration",
        MIGRATES,
        f"keep UUID {RUNNING_UUID}",
        f"server migration show vm $UUID {BY_UUID}",
    ),
    f"keep ID {RUNNING}",
    *("server migration force complete vm $ID", ACTIVE),
    *(
        "server migrate vm --live-migration --host h1",
        MIGRATES,
        f"keep ID {RUNNING}",
        "server migration abort vm $ID",
        ACTIVE,
    ),
)
# From 2.95 on an evacuated server is stopped.
OF_EVACUATIONS = (
    *("compute service set h2 nova-compute --down", "server evacuate vm", f"until 'None SHUTOFF' {STATE}"),
    *("server start vm", ACTIVE),
)
# Why a command is run elsewhere, or not at all.
ELSEWHERE = {
    "cached image delete": "sends the request of `cached image queue`, and takes its 404 for success",
    "compute service delete": "test_openstack_client.py, with a host that has ended",
    "image member get": "shares an image again that `image add project` has shared: the same request as `image member list`",
    "server restore": "tests/integration/test_openstack_client.py: here deleted servers are gone at once",
    "server ssh": "runs ssh in a terminal; tools/demo logs in by `minova server ssh`",
}
NOT_RESIZED = "while it is in vm_state active"
NO_VOLUMES = "endpoint for block-storage service in RegionOne region not found"
NO_SHARES = "endpoint for shared-file-system service in RegionOne region not found"
NOT_FOUND = "The resource could not be found."
GONE = "410: Client Error"
UNKNOWN = "8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f00"
# Commands while there is the server vm, and the error of each.
REFUSED = {
    # The client asks at the newest microversion that it knows, and the action ends with 2.43.
    "server remove fixed ip vm 10.77.0.77": NOT_FOUND,
    "server volume set vm v": NO_VOLUMES,
    "server volume update vm v": NO_VOLUMES,
    "server add volume vm v": NO_VOLUMES,
    "server remove volume vm v": NO_VOLUMES,
    "server share list vm": NOT_FOUND,
    "server share show vm s": NO_SHARES,
    "server add share vm s": NO_SHARES,
    "server remove share vm s": NO_SHARES,
    "server add floating ip vm 203.0.113.1": "No FloatingIP found for 203.0.113.1",
    "server remove floating ip vm 203.0.113.1": "No FloatingIP found for 203.0.113.1",
    f"console connection show {UNKNOWN}": NOT_FOUND,
    "compute agent list": GONE,
    "compute agent create a b c d e f": GONE,
    "compute agent delete 1": GONE,
    "compute agent set 1 --agent-version 2": GONE,
    "cached image list": NOT_FOUND,
    "cached image clear": "Failed to clear image cache",
    "cached image queue story-image": NOT_FOUND,
    "image stores list": "Multi Backend support not enabled",
    "image task list": NOT_FOUND,
    f"image task show {UNKNOWN}": NOT_FOUND,
    "image metadef namespace list": NOT_FOUND,
    "image metadef resource type list": NOT_FOUND,
}
# Of moves, which OF_MOVES runs: what a user gets whose server has not moved.
MOVES_REFUSED = {
    "server resize vm --flavor story": "instances must change flavor",
    "server resize confirm vm": NOT_RESIZED,
    "server resize revert vm": NOT_RESIZED,
    "server migrate vm": "Policy doesn't allow os_compute_api:os-migrate-server:migrate",
    "server migrate confirm vm": NOT_RESIZED,
    "server migrate revert vm": NOT_RESIZED,
    "server migration confirm vm": NOT_RESIZED,
    "server migration revert vm": NOT_RESIZED,
    "server evacuate vm": "Policy doesn't allow os_compute_api:os-evacuate",
    "server migration show vm 1": "No ServerMigration found",
    "server migrate vm --live-migration": "Policy doesn't allow os_compute_api:os-migrate-server:migrate_live",
    "server migration abort vm 1": "Policy doesn't allow os_compute_api:servers:migrations:delete",
    "server migration force complete vm 1": "Policy doesn't allow os_compute_api:servers:migrations:force_complete",
}
# Of each only some commands are sent: all need what these ask for.
ALIKE = ("image metadef",)

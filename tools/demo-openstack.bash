# Sourced by tools/demo for --openstack: Keystone, Glance, RabbitMQ, PostgreSQL and minova's executables, used by the unchanged
# `openstack` client alone.

# Servers of its own, and the OS_* variables of its administrator.
CLOUD=$STATE/openstack
OPENRC=$OWN/openrc
# The first one to which this machine has no route becomes the network of the guest.
RANGES=(172.30.0.0/24 192.168.224.0/24 10.222.0.0/24)

openstack() { .venv/bin/openstack "$@"; }

show() { # a command, and what it answers
    printf '    $ %s\n' "$*"
    "$@" | sed 's/^/    /'
}

cloud() { as_root env PYTHONPATH="$PWD" .venv/bin/python -B -m tests.servers.openstack_cloud "$@"; }

cloud_lives() { # whether it runs, has what a server needs, and answers
    [ -e "$OPENRC" ] || return 1
    # shellcheck source=/dev/null
    source "$OPENRC"
    openstack image show "$GUEST" -f value -c status 2>/dev/null | grep -qx active
}

start_openstack() {
    local uri
    say "starting a libvirtd of its own"
    uri=$(libvirtd start)
    if cloud_lives; then return; fi
    # What is left of the last time has ports that may be others' now.
    rm -f "$OPENRC"
    cloud stop "$CLOUD"
    as_root rm -rf "$CLOUD"
    say "starting RabbitMQ, PostgreSQL, Keystone, Glance, and minova: api, conductor, scheduler and compute"
    cloud start "$CLOUD" "$uri" >"$OPENRC.new"
    mv "$OPENRC.new" "$OPENRC"
    # shellcheck source=/dev/null
    source "$OPENRC"
    fill_openstack
}

free_range() {
    local range
    for range in "${RANGES[@]}"; do
        [ -n "$(ip -4 route show root "$range")$(ip -4 route show match "$range" | grep -v '^default')" ] || {
            echo "$range"
            return
        }
    done
    fail "this machine has routes to each of ${RANGES[*]}"
}

fill_openstack() { # what a server needs; the image at last, by which `cloud_lives` knows
    say "making a flavor, a network and a key pair, and uploading the guest's image to Glance"
    openstack flavor create --ram 128 --disk 1 m1.nano >/dev/null
    openstack network create "$GUEST" >/dev/null
    openstack subnet create --network "$GUEST" --subnet-range "$(free_range)" "$GUEST" >/dev/null
    rm -f "$OWN/key"
    openstack keypair create --private-key "$OWN/key" "$GUEST" >/dev/null
    openstack image create --disk-format qcow2 --container-format bare --file "$(tools/build-guest)" "$GUEST" >/dev/null
}

console_of_guest() {
    local console deadline=$((SECONDS + BOOT_WITHIN_S))
    say "waiting for the guest to say that it is ready"
    until console=$(openstack console log show "$GUEST" 2>/dev/null) && grep -q 'MINOVA-GUEST READY' <<<"$console"; do
        [ $SECONDS -lt $deadline ] || {
            printf '%s\n' "$console"
            fail "the guest was not ready within $BOOT_WITHIN_S s"
        }
        sleep 0.5
    done
    tr -d '\r' <<<"$console" | grep 'MINOVA-GUEST READY' | tail -n 1 | sed 's/^/    /'
}

run_openstack() {
    tools/setup openstack
    make_state
    [ ! -e "$STATE/minova.pid" ] || fail "the other demo runs in $STATE: tools/demo --stop first"
    # What was begun is removed, also by Ctrl-C.
    trap 'trap - INT TERM; stop; exit 130' INT TERM
    local last
    start_openstack
    last=$(openstack server list -f value -c ID)
    if [ -n "$last" ]; then
        say "deleting the guest of the last time"
        # shellcheck disable=SC2086 # several ids, should it have been interrupted
        openstack server delete --wait $last
    fi
    say "booting a guest"
    show openstack server create --wait --image "$GUEST" --flavor m1.nano --key-name "$GUEST" "$GUEST"
    console_of_guest
    show openstack server list
    show openstack catalog list -c Name -c Type
    show openstack console url show "$GUEST"
    trap - INT TERM
    say "done in $SECONDS s. Go on with: source $OPENRC; .venv/bin/openstack server show $GUEST"
    say "tools/demo --stop removes it all"
}

stop_openstack() {
    [ -e "$CLOUD" ] || return 0
    if cloud_lives; then
        # With its last guest a network of the host goes: bridge, dnsmasq and rules.
        say "deleting its guests"
        openstack server list --all-projects -f value -c ID 2>/dev/null | xargs -r .venv/bin/openstack server delete --wait || true
    fi
    say "stopping minova, Glance, Keystone, PostgreSQL and RabbitMQ"
    cloud stop "$CLOUD"
}

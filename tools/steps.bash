# Sourced by the tools: what they find, how they speak, stop, and become root.

# Debian's users have no sbin in their PATH, which root gets by sudo: libvirtd looks for dnsmasq there.
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Runs a command as root, or says what to do.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -- "$@"
    else
        fail "this needs root and there is no sudo: run it as root"
    fi
}

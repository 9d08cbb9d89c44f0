# Sourced by the tools: how they speak, stop, and become root.

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

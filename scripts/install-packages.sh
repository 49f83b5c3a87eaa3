#!/usr/bin/env bash
# Installs the Debian packages whose tools the tests use. Does nothing where all of them are there, so it needs no network
# then. Ends with an error, and names what is missing, if a tool is still not there at the end.
set -euo pipefail

# tool:package
readonly TOOLS=(
    c++:g++                # builds libFuzzer
    python3:python3        # the independent reader
    strace:strace          # failed and lying system calls
    mkfs.ext4:e2fsprogs    # small loop mounts, one of each file system
    mkfs.xfs:xfsprogs
    mkfs.btrfs:btrfs-progs
    losetup:mount
    mount:mount
    cmp:diffutils
    curl:curl              # clients that nobody here wrote
    wrk:wrk
)

# Tools for file systems are in sbin, which is not on everybody's path.
PATH="$PATH:/usr/sbin:/sbin"

missing() {
    local entry
    {
        for entry in "${TOOLS[@]}"; do
            command -v "${entry%%:*}" >/dev/null || echo "${entry##*:}"
        done
        # Debian has a part of what makes virtual environments in a package of its own.
        python3 -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
    } | sort -u
}

packages=$(missing)
if [[ -z $packages ]]; then
    echo "all tools are there"
    exit 0
fi
echo "missing:" $packages
if ! command -v apt-get >/dev/null; then
    echo "no apt-get here: install these by hand" >&2
    exit 1
fi
as_root=()
if [[ $(id -u) != 0 ]]; then
    as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
# An old list of packages is often good enough, so a failed update alone is no failure.
"${as_root[@]}" apt-get update -qq || echo "the list of packages could not be brought up to date" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $packages || true

left=$(missing)
if [[ -n $left ]]; then
    echo "still missing:" $left >&2
    exit 1
fi

#!/usr/bin/env bash
# Installs the cargo commands that .ci/run uses, in fixed versions, where they are not there in these.
set -euo pipefail

install() {
    local name=$1 version=$2 found
    found=$(cargo "${name#cargo-}" --version 2>/dev/null || true)
    if [[ $found == "$name $version" ]]; then
        echo "$found is there"
    else
        cargo install --locked "$name" --version "$version"
    fi
}

install cargo-deny 0.20.2
install cargo-fuzz 0.13.2

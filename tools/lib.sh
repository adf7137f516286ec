# Shared by the scripts beside it; sourced, never run.
# shellcheck shell=bash

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "error: $*"; exit 1; }

# Prints the folder for everything that can be built or loaded again.
poorwill_cache() { printf '%s\n' "${POORWILL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/poorwill}"; }

# Sets DISTRO (debian, ...) and RELEASE (12, 13, ...; empty on testing).
read_os_release() {
    DISTRO=unknown RELEASE=
    [ -r /etc/os-release ] || return 0
    # shellcheck disable=SC1091,SC2034
    { DISTRO=$(. /etc/os-release && printf %s "${ID:-unknown}")
      RELEASE=$(. /etc/os-release && printf %s "${VERSION_ID:-}"); }
}

# Prints this system's own Debian mirror as "URI SOURCE-FILE", from apt's configuration
# in either style; nothing without a mirror. The source file is missing if apt has
# never loaded an index.
debian_mirror() {
    { indexed_mirror; configured_mirror; } | head -n 1
}
configured_mirror() {
    apt-get update --print-uris 2>/dev/null |
    sed -nE "s#^'((https?|mirror|mirror\\+https?|file|copy|ftp):.*)/dists/(bookworm|trixie|oldstable|stable)/(In)?Release' .*#\\1#p"
}
indexed_mirror() {
    apt-get indextargets --format '$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SOURCESENTRY)' \
        'Created-By: Packages' 2>/dev/null |
    awk -F'|' '$1 ~ /^(https?|mirror\+https?|mirror|file|copy|ftp):/ && $3 == "main" &&
               $2 ~ /^(bookworm|trixie|oldstable|stable)$/ && !done {
                   sub(/:[0-9]+$/, "", $4); print $1, $4; done = 1 }'
}

# Prints the keyring of that source file, else Debian's own.
debian_keyring() { # SOURCE-FILE
    local key=
    if [ -r "${1:-}" ]; then
        key=$(sed -nE 's/^[Ss]igned-[Bb]y:[[:space:]]*(\/[^[:space:]]+).*/\1/p
                       s/^deb[[:space:]]*\[.*signed-by=(\/[^] ,]+).*/\1/p' "$1" | head -n 1)
    fi
    printf '%s\n' "${key:-/usr/share/keyrings/debian-archive-keyring.gpg}"
}

# Prints the lines of a package lock (see tools/pool) that have these roles.
lock_rows() { # LOCK ROLE...
    local file=$1
    shift
    awk -F'\t' -v roles=" $* " '!/^#/ && index(roles, " " $1 " ")' "$file"
}

# Prints the files of such lines in tools/pool's folder. They have the archive's names,
# each for one version of one package.
lock_files() { # LOCK ROLE...
    lock_rows "$@" | awk -F'\t' -v pool="$(poorwill_cache)/pool" '{ sub(/.*\//, "", $4); print pool "/" $4 }'
}

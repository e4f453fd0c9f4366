# Sourced by the install-*.sh scripts: installs only the Debian packages that
# are missing.
#
#   require_packages "what they are for" package...
#
# As root, the missing packages are installed. Without root, the exact command is
# printed and the script ends with status 1: a build must not ask for a password.

# The packages among the arguments that are not installed, one per line.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -qx 'install ok installed' || printf '%s\n' "$package"
  done
}

require_packages() {
  local purpose=$1 missing
  shift
  if ! command -v dpkg-query >/dev/null; then
    printf '%s: this system has no dpkg; install the equivalents of these Debian packages yourself: %s\n' "$purpose" "$*" >&2
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    printf '%s: packages are missing. Run this, then try again:\n\n    sudo apt-get install -y --no-install-recommends %s\n\n' \
      "$purpose" "${missing[*]}" >&2
    return 1
  fi
  printf '%s: installing %s\n' "$purpose" "${missing[*]}" >&2
  install_without_starting "${missing[@]}"
}

# Installs packages with every service kept stopped: a package such as nginx
# would otherwise start its server on port 80 when it is unpacked. Debian's own
# tools consult the policy file before they start a service; an existing one is kept.
install_without_starting() {
  local policy=/usr/sbin/policy-rc.d ours=0 status=0
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 0755 "$policy"
    ours=1
  fi
  {
    apt-get update -qq &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
  } || status=$?
  if ((ours)); then rm -f "$policy"; fi
  return "$status"
}

# Sourced by the tests of packages and images, which define die: waits for conditions.
# shellcheck shell=bash

# wait_until WHAT-WENT-WRONG COMMAND...
wait_until() {
  local what=$1 end=$((SECONDS + 60))
  shift
  while ((SECONDS < end)); do
    if "$@"; then return; fi
    sleep 0.1
  done
  die "$what"
}

# answers TEXT CURL-ARGUMENT...: whether the answer contains the text.
answers() { [[ $(curl --silent --show-error --max-time 10 "${@:2}" 2>&1) == *"$1"* ]]; }

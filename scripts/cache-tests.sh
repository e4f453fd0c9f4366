#!/usr/bin/env bash
# Runs the public test suite for HTTP caches (repository http-tests/cache-tests, a checkout of
# which is given, with its npm dependencies installed) against nginx and Sealane. Prints for each of
# them how many tests of each kind pass, and the others by their names.
#
#   scripts/cache-tests.sh DIRECTORY [SERVER...]
#
# SERVER is one of "nginx", "sealane-nginx" and "sealane-rfc9111"; all of them by default. The
# configuration is the suite's own for nginx (docker/nginx), with "proxy_cache_rules rfc9111" in the
# last one, and with SEALANE_TEST_LINES. Exits with 1 if a required test fails with that.
#
# Environment:
#   SEALANE_BINARY       the Sealane to test (default: target/debug/sealane)
#   SEALANE_TEST_NGINX   the nginx to test (default: what scripts/peers/build-nginx.sh has built)
#   SEALANE_TEST_LINES   further directives for all servers (default: those that switch on what some
#                        tests need: stale responses where an origin fails, and 103)
#   SEALANE_TEST_ID      runs this one test, and shows its requests and responses
#   SEALANE_TEST_OUTPUT  directory for the results and logs (default: a new one)
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() { printf 'cache-tests: %s\n' "$*" >&2; exit 1; }
(($#)) || die "the directory of a checkout of http-tests/cache-tests is missing"
suite=$(cd "$1" && pwd)
shift
[[ -f $suite/test-engine/cli.mjs ]] || die "$suite is no checkout of http-tests/cache-tests"
[[ -d $suite/node_modules/undici ]] || die "dependencies are missing; run npm install in $suite"
command -v node >/dev/null || die "node is missing; run: apt-get install -y --no-install-recommends nodejs"
servers=("$@")
((${#servers[@]})) || servers=(nginx sealane-nginx sealane-rfc9111)
sealane=$(realpath -m "${SEALANE_BINARY:-$repository/target/debug/sealane}")
nginx=${SEALANE_TEST_NGINX:-$repository/.cache/peers/nginx-reference/sbin/nginx}
lines=${SEALANE_TEST_LINES-proxy_cache_use_stale error timeout; early_hints 1;}
output=${SEALANE_TEST_OUTPUT:-$(mktemp -d)}
mkdir -p "$output"
output=$(cd "$output" && pwd)
chmod 755 "$output" # for a worker that has become another user

started=()
stop() {
  local pid
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
}
trap stop EXIT

free_port() {
  node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => {
    console.log(s.address().port); s.close() })'
}

# Waits until somebody listens on a port.
wait_for() {
  for _ in {1..300}; do
    if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
    sleep 0.1
  done
  die "nothing listens on port $1; the logs are in $output"
}

origin=$(free_port)
(cd "$suite" && npm_config_protocol=http npm_config_port=$origin npm_config_pidfile=$output/origin.pid \
  exec node test-engine/server/server.mjs) >"$output/origin.log" 2>&1 &
started+=($!)
wait_for "$origin"

# The suite's configuration, where nothing but addresses and directories differs.
configure() {
  local rules=
  if [[ $1 == sealane-rfc9111 ]]; then rules="proxy_cache_rules rfc9111;"; fi
  cat <<END
daemon off;
pid $output/$1/pid;
error_log $output/$1/error.log info;
events {}
http {
    access_log $output/$1/access.log;
    proxy_cache_path $output/$1/cache levels=1:2 keys_zone=my-cache:8m max_size=1000m inactive=600m;
    proxy_temp_path $output/$1/temp;
    server {
        listen 127.0.0.1:$2;
        location / {
            proxy_pass http://localhost:$origin;
            proxy_cache my-cache;
            proxy_cache_revalidate on;
            proxy_http_version 1.1;
            $rules $lines
        }
    }
}
END
}

# Counts by kind, and the names of tests that do not pass.
cat >"$output/count.mjs" <<'END'
import { readFileSync } from 'node:fs'
const [suite, file] = process.argv.slice(2)
const { default: suites } = await import(`${suite}/tests/index.mjs`)
const { determineTestResult, resultTypes } = await import(`${suite}/test-engine/lib/results.mjs`)
const results = JSON.parse(readFileSync(file))
let failed = false
for (const kind of ['required', 'optimal', 'check']) {
  const names = new Map(Object.entries(resultTypes).map(([name, type]) => [type, name]))
  const found = new Map()
  let count = 0
  for (const test of suites.flatMap(suite => suite.tests)) {
    if ((test.kind ?? 'required') !== kind || results[test.id] === undefined) continue
    const name = names.get(determineTestResult(suites, test.id, results))
    found.set(name, [...(found.get(name) ?? []), test.id])
    count++
  }
  const good = kind === 'check' ? 'yes' : 'pass'
  console.log(`  ${kind}: ${found.get(good)?.length ?? 0} of ${count} ${good}`)
  for (const [name, ids] of found) {
    if (name === good) continue
    if (kind === 'required') failed = true
    console.log(`    ${name} (${ids.length}): ${ids.join(' ')}`)
  }
}
process.exit(failed ? 1 : 0)
END

status=0
for server in "${servers[@]}"; do
  case $server in
    nginx) binary=$nginx ;;
    sealane-nginx | sealane-rfc9111) binary=$sealane ;;
    *) die "unknown server $server" ;;
  esac
  [[ -x $binary ]] || die "$binary is missing"
  port=$(free_port)
  rm -rf "${output:?}/$server"
  mkdir -p "$output/$server"
  chmod 755 "$output/$server"
  configure "$server" "$port" >"$output/$server/nginx.conf"
  "$binary" -p "$output/$server" -e "$output/$server/error.log" -c "$output/$server/nginx.conf" \
    >"$output/$server/out.log" 2>&1 &
  started+=($!)
  wait_for "$port"
  results=$output/$server.json
  (cd "$suite" && npm_config_base=http://127.0.0.1:$port npm_config_id=${SEALANE_TEST_ID:-} npm_package_config_id= \
    node --no-warnings test-engine/cli.mjs) >"$results" 2>"$output/$server/client.log"
  printf '\n%s (%s):\n' "$server" "$("$binary" -v 2>&1 | head -1)"
  if [[ -n ${SEALANE_TEST_ID:-} ]]; then
    cat "$results"
  elif ! node "$output/count.mjs" "$suite" "$results" && [[ $server == sealane-rfc9111 ]]; then
    status=1
  fi
done
printf '\ncache-tests: results and logs are in %s\n' "$output"
exit "$status"

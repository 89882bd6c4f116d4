#!/usr/bin/env bash
# Loads an image of Freshet into Docker, and runs the tests of the Testcontainers modules with it. Without Docker, it starts
# Podman's service with storage of its own. `make contrib` runs it.
#
#   contrib/test.sh NAME ARCHIVE
set -euo pipefail
image=$1 archive=$2
here=$(dirname "$0")
most=30000000

size=$(stat -c %s "$archive")
echo "$archive: $size bytes, bound $most"
if [ "$size" -gt "$most" ]; then
  echo "make contrib: the image is above its bound" >&2
  exit 1
fi

service=
# stop_podman ends the service and removes its storage.
stop_podman() {
  if [ -n "$service" ]; then
    kill "$service" || true
    wait "$service" || true
  fi
  podman system reset --force >/dev/null 2>&1 || true # Podman 4.3 exits with 125 after it has removed everything.
  rm -rf "$dir"
}

# podman_service starts Podman's service and waits for its socket. DOCKER_HOST names the socket.
podman_service() {
  dir=$(mktemp -d)
  trap stop_podman EXIT
  # A root without CAP_SYS_RESOURCE cannot raise limits, and crun needs cgroups that such a root may lack.
  cat >"$dir/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=10000:10000", "nproc=1000:1000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
$(command -v runc >/dev/null && echo 'runtime = "runc"')
CONF
  cat >"$dir/storage.conf" <<CONF
[storage]
driver = "vfs"
graphroot = "$dir/graph"
runroot = "$dir/run"
CONF
  export CONTAINERS_CONF=$dir/containers.conf CONTAINERS_STORAGE_CONF=$dir/storage.conf DOCKER_HOST=unix://$dir/docker.sock
  podman load --quiet -i "$archive"
  podman system service --time=0 "$DOCKER_HOST" &
  service=$!
  for _ in $(seq 100); do
    if [ -S "$dir/docker.sock" ]; then return; fi
    sleep 0.1
  done
  echo "make contrib: Podman's service has not made its socket in 10 s" >&2
  exit 1
}

if command -v docker >/dev/null && docker version >/dev/null 2>&1; then
  docker load -i "$archive"
elif command -v podman >/dev/null; then
  podman_service
else
  echo "make contrib: install Docker or Podman (apt-get install podman)" >&2
  exit 1
fi

# The tests remove their containers themselves. Ryuk, which removes those of killed tests, is an image that must be pulled.
export TESTCONTAINERS_RYUK_DISABLED=${TESTCONTAINERS_RYUK_DISABLED:-true} FRESHET_IMAGE=$image
go -C "$here/testcontainers-go" vet ./...
go -C "$here/testcontainers-go" test -vet=off -count=1 -v ./... | grep -E '^(---|FAIL|ok|panic)|^ +freshet_test'
mvn -B -q -f "$here/testcontainers-java/pom.xml" test

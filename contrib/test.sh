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

. "$here/podman.sh"

service=
# stop_podman ends the service and removes its storage.
stop_podman() {
  if [ -n "$service" ]; then
    kill "$service" || true
    wait "$service" || true
  fi
  podman_remove "$dir"
}

# podman_service starts Podman's service with the image.
podman_service() {
  dir=$(mktemp -d)
  trap stop_podman EXIT
  podman_settings "$dir"
  podman load --quiet -i "$archive"
  podman system service --time=0 "$DOCKER_HOST" &
  service=$!
  podman_await
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

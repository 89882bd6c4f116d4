# Podman's service with storage and settings of its own, as a Docker. contrib/test.sh and test/ecs/cluster/stack.sh source this file.

# podman_settings DIR [BACKEND DNS] writes the settings of a Podman whose state is in DIR, and exports their paths. BACKEND is the
# network backend, and DNS the address of the containers' DNS server. Without them, Podman chooses.
podman_settings() {
  # A root without CAP_SYS_RESOURCE cannot raise limits, and crun needs cgroups that such a root may lack.
  cat >"$1/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=10000:10000", "nproc=1000:1000"]
$([ -z "${3:-}" ] || echo "dns_servers = [\"$3\"]")
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
$(command -v runc >/dev/null && echo 'runtime = "runc"')
[network]
$([ -z "${2:-}" ] || echo "network_backend = \"$2\"")
$([ -z "${2:-}" ] || echo "network_config_dir = \"$1/networks\"")
CONF
  cat >"$1/storage.conf" <<CONF
[storage]
driver = "vfs"
graphroot = "$1/graph"
runroot = "$1/run"
CONF
  export CONTAINERS_CONF=$1/containers.conf CONTAINERS_STORAGE_CONF=$1/storage.conf DOCKER_HOST=unix://$1/docker.sock
}

# podman_await waits until the service has made its socket, which DOCKER_HOST names.
podman_await() {
  for _ in $(seq 100); do
    if [ -S "${DOCKER_HOST#unix://}" ]; then return; fi
    sleep 0.1
  done
  echo "Podman's service has not made its socket in 10 s" >&2
  return 1
}

# podman_remove DIR ends the service's containers, and removes its storage.
podman_remove() {
  podman system reset --force >/dev/null 2>&1 || true # Podman 4.3 exits with 125 after it has removed everything.
  rm -rf "$1"
}

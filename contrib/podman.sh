# Podman's service with storage and settings of its own, as a Docker, and namespaces of its own. contrib/test.sh, test/ecs/cluster/stack.sh and
# test/compose/stack.sh source this file.

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

# enclose DIR makes network, mount and PID namespaces, and writes the ID of their first process into DIR/pid. All root's Podmans on a machine
# share files below /run and locks in /dev/shm, so these are empty there. When the first process ends, the kernel ends all others. Until
# then, it gives bridges a fixed MAC address, as udev does elsewhere: a bridge takes the lowest one of its ports otherwise, and a new container
# cuts off the others for up to a minute.
enclose() {
  setsid unshare --net --mount --pid --fork --mount-proc bash -c '
    mount -t tmpfs run /run && mount -t tmpfs shm /dev/shm && ip link set lo up && touch "$1" || exit
    mac=02:00:00:00:00:01
    ip monitor link | grep --line-buffered --only-matching "podman[0-9]*" | while read -r bridge; do
      ip link show "$bridge" | grep -q $mac || ip link set "$bridge" address $mac
    done' enclose "$1/enclosed" </dev/null >"$1/enclose.log" 2>&1 &
  local pid=$!
  for _ in $(seq 100); do
    if [ -e "$1/enclosed" ]; then
      tr -d ' ' <"/proc/$pid/task/$pid/children" >"$1/pid"
      return
    fi
    sleep 0.1
  done
  echo "no namespaces: $(cat "$1/enclose.log")" >&2
  return 1
}

# within DIR CMD runs a command in the namespaces, in the working directory of the caller.
within() {
  local first
  first=$(cat "$1/pid")
  shift
  nsenter --target "$first" --net --mount --pid bash -c 'cd "$0" && exec "$@"' "$PWD" "$@"
}

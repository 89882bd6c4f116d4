#!/usr/bin/env bash
# Runs deploy/compose by podman-compose in namespaces of its own, without a route out of the machine. Freshet, etcd and the S3 server are
# built from this checkout; HAProxy and Prometheus are Debian's. Their images have the names in deploy/compose/.env. Needs root on Debian.
#
#   stack.sh install             install missing Debian packages, and podman-compose into bin/compose
#   stack.sh up ETCD ETCDCTL VERSITYGW ARCHIVE
#                                make the namespaces and the images, of these programs and of Freshet's archive
#   stack.sh run COMMANDS        run shell commands in deploy/compose in the namespaces; "docker compose" is podman-compose
#   stack.sh down                end all processes in the namespaces, and remove all state
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dir=$root/bin/compose
state=$dir/state
. "$root/contrib/podman.sh"
. "$root/contrib/packages.sh"
. "$root/deploy/compose/.env"

install_all() {
  local missing=()
  want podman podman
  want runc runc
  want nft nftables
  want iptables iptables
  want ip iproute2
  want kcat kcat
  want curl curl
  want haproxy haproxy
  want prometheus prometheus
  want busybox busybox-static
  [ -x /usr/lib/podman/netavark ] || missing+=(netavark aardvark-dns)
  python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
  install_missing
  local wanted=$root/test/compose/requirements.txt
  cmp -s "$dir/python/installed" "$wanted" && return
  python3 -m venv "$dir/python"
  "$dir/python/bin/pip" install --quiet --requirement "$wanted"
  cp "$wanted" "$dir/python/installed"
}

# pack NAME CMD FILE:PATH... makes an image of programs and their libraries. The first program is the entry point, and CMD its arguments.
pack() {
  local name=$1 cmd=$2 tree=$state/tree file library
  shift 2
  local entry=${1#*:}
  mkdir -p "$tree/tmp"
  for file in "$@"; do
    install -D "$(realpath "${file%:*}")" "$tree/${file#*:}"
    for library in $(ldd "${file%:*}" 2>/dev/null | grep -o '/[^ ]*'); do # a static program has none
      install -D "$library" "$tree/$library"
    done
  done
  tar -C "$tree" -c . | within "$state" podman import --quiet -c "ENTRYPOINT [\"$entry\"]" -c "CMD $cmd" -c 'ENV PATH=/usr/local/bin:/usr/bin' - "$name"
  rm -r "$tree"
}

up() {
  [ ! -e "$state" ] || { echo "stack.sh: a stack runs already; stack.sh down removes it" >&2; return 1; }
  [ "$(id -u)" = 0 ] || { echo "stack.sh: namespaces need root" >&2; return 1; }
  mkdir -p "$state/path"
  printf '#!/bin/sh\n[ "$1" = compose ] || exit 127\nshift\nexec "%s" "$@"\n' "$dir/python/bin/podman-compose" >"$state/path/docker"
  chmod +x "$state/path/docker"
  enclose "$state"
  podman_settings "$state" netavark
  pack "$ETCD_IMAGE" [] "$1:/usr/local/bin/etcd" "$2:/usr/local/bin/etcdctl"
  pack "$STORE_IMAGE" [] "$3:/usr/local/bin/versitygw" "$(command -v busybox):/usr/bin/wget"
  pack "$BALANCER_IMAGE" '["-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]' "$(command -v haproxy):/usr/local/sbin/haproxy"
  pack "$PROMETHEUS_IMAGE" [] "$(command -v prometheus):/bin/prometheus" "$(command -v busybox):/usr/bin/wget"
  within "$state" podman load --quiet -i "$(realpath "$4")"
}

down() {
  [ -e "$state" ] || return 0
  if [ -s "$state/pid" ]; then
    podman_settings "$state" netavark
    within "$state" podman rm --all --force --time 0 >/dev/null 2>&1 || true
    kill -9 "$(cat "$state/pid")"
  fi
  rm -rf "$state"
}

case ${1:-} in
install) install_all ;;
up) shift; up "$@" ;;
run)
  [ -s "$state/pid" ] || { echo "stack.sh: no stack runs; stack.sh up starts one" >&2; exit 1; }
  podman_settings "$state" netavark
  PATH=$state/path:$PATH within "$state" bash -euo pipefail -c "cd '$root/deploy/compose'; $2"
  ;;
down) down ;;
*) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac

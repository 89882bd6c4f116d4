#!/usr/bin/env bash
# A stand-in of ECS and CloudFormation on this machine: ministack, which starts the containers of tasks by Podman. Both are in
# namespaces of their own, whose address 10.99.0.1 tasks reach. Nothing in it has a route out of the machine. Needs root on Linux.
#
#   stack.sh install            install missing Debian packages, and Python packages into bin/ecs
#   stack.sh up ARCHIVE         start both, with the image of an archive
#   stack.sh down               stop both, and remove their state
#   stack.sh aws ARGS           run the AWS CLI against the stand-in
#   stack.sh podman ARGS        run Podman
#   stack.sh run CMD            run a command in the namespaces, as a client there
#   stack.sh logs               print what tasks have logged, also those that have ended
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
dir=$root/bin/ecs
state=$dir/state
namespace=freshet-ecs
address=10.99.0.1
. "$root/contrib/podman.sh"
. "$root/contrib/packages.sh"

install_all() {
  local missing=()
  want podman podman
  want runc runc
  want nft nftables
  want iptables iptables
  want ip iproute2
  want kcat kcat
  [ -x /usr/lib/podman/netavark ] || missing+=(netavark aardvark-dns)
  python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
  install_missing
  [ -e "$dir/python/installed" ] && cmp -s "$dir/python/installed" "$(dirname "${BASH_SOURCE[0]}")/requirements.txt" && return
  python3 -m venv "$dir/python"
  "$dir/python/bin/pip" install --quiet --requirement "$(dirname "${BASH_SOURCE[0]}")/requirements.txt"
  cp "$(dirname "${BASH_SOURCE[0]}")/requirements.txt" "$dir/python/installed"
}

# launch NAME CMD starts a daemon in the namespace.
launch() {
  local name=$1
  shift
  within "$state" setsid "$@" >"$state/$name.log" 2>&1 </dev/null &
}

up() {
  [ ! -e "$state" ] || { echo "stack.sh: a stack runs already; stack.sh down removes it" >&2; return 1; }
  [ "$(id -u)" = 0 ] || { echo "stack.sh: a network namespace needs root" >&2; return 1; }
  mkdir -p "$state"
  enclose "$state"
  ip netns attach $namespace "$(cat "$state/pid")"
  ip -n $namespace addr add $address/32 dev lo
  printf 'nameserver %s\noptions timeout:1\n' $address >"$state/resolv.conf"
  mkdir -p "/etc/netns/$namespace" # of "ip netns exec"
  cp "$state/resolv.conf" "/etc/netns/$namespace/"
  podman_settings "$state" netavark $address
  # ministack pulls the image of each task, and starts what is there if that fails. Podman would retry for 7 s.
  printf '[[registry]]\nlocation = "localhost"\nblocked = true\n' >"$state/registries.conf"
  export CONTAINERS_REGISTRIES_CONF=$state/registries.conf
  within "$state" podman load --quiet -i "$1"
  launch podman podman system service --time=0 "$DOCKER_HOST"
  podman_await
  launch ministack env GATEWAY_PORT=4566 "$dir/python/bin/python" "$root/test/ecs/cluster/standin.py"
  for _ in $(seq 300); do
    if aws sts get-caller-identity >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  echo "stack.sh: ministack does not answer, see $state/ministack.log" >&2
  return 1
}

aws() {
  AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_DEFAULT_REGION=us-east-1 AWS_PAGER= \
    within "$state" "$dir/python/bin/aws" "$@"
}

down() {
  [ -e "$state" ] || return 0
  set +e
  podman_settings "$state" netavark $address
  within "$state" podman rm --all --force --time 0 >/dev/null 2>&1
  kill -9 "$(cat "$state/pid")"
  rm -rf "$state"
  ip netns del $namespace
  rm -rf "/etc/netns/$namespace"
}

# need_stack fails if this checkout has no stack.
need_stack() { [ -s "$state/pid" ] || { echo "stack.sh: no stack runs from this checkout; make ecs-stand-in starts one" >&2; return 1; }; }

case ${1:-} in
install) install_all ;;
up) up "$2" ;;
down) down ;;
aws) need_stack; shift; aws "$@" ;;
podman) need_stack; shift; podman_settings "$state" netavark $address; within "$state" podman "$@" ;;
run) need_stack; shift; nsenter --net="/run/netns/$namespace" unshare --mount bash -c 'mount --bind "$0" /etc/resolv.conf && exec "$@"' "$state/resolv.conf" "$@" ;;
logs)
  need_stack
  for group in $(aws logs describe-log-groups --query 'logGroups[].logGroupName' --output text); do
    aws logs filter-log-events --log-group-name "$group" --query 'events[].[logStreamName, message]' --output text
  done
  tail -n 200 "$state"/*.log
  ;;
*) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac

#!/usr/bin/env bash
# A Kubernetes cluster on one machine. Each node is a network namespace with a kubelet, a kube-proxy, a containerd and a
# bridge for its pods; node 1 also runs the control plane and DNS. Each node is a zone of its own. Nothing in the cluster has a
# route out of the machine. A further namespace, "outside", reaches node addresses and therefore NodePorts, but neither pods
# nor services. Needs root on Linux, and what `make kube` builds.
#
#   cluster.sh install               install missing Debian packages
#   cluster.sh up | down             start the cluster; stop and remove it
#   cluster.sh load [IMAGE.tar...]   import images on every node; by default those of make kube
#   cluster.sh kubectl|helm ARGS     run one of them against the cluster
#   cluster.sh volume NAMESPACE CLAIM NODE
#                                    make an empty volume on a node for a claim, in place of the one before
#   cluster.sh in PLACE CMD ARGS     run a program in the namespace of a node (1, 2) or outside
#   cluster.sh sockets NAMESPACE     list the TCP sockets of a pod, by the name of its network namespace
#   cluster.sh kill NODE CONTAINER   end a container by SIGKILL
#   cluster.sh cut|join NODE         take a node's link down, and up again (not node 1)
set -euo pipefail
bin=${FRESHET_KUBE_BIN:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/bin}
dir=${FRESHET_KUBE_DIR:-$bin/cluster} # state of the running cluster
prefix=freshet-kube                   # of network namespaces and control groups
nodes=(1 2)
network=10.99.0 pods=10.244 services=10.96.0.0/16
api=$network.1
export KUBECONFIG=$dir/kubeconfig HELM_CACHE_HOME=$dir/helm HELM_CONFIG_HOME=$dir/helm HELM_DATA_HOME=$dir/helm

place() { echo "$prefix-$1"; }

# within runs a program in a namespace. "ip netns exec" would mount another /sys, in which the kubelet finds no control groups.
within() {
  local place=$1
  shift
  nsenter --net="/run/netns/$(place "$place")" "$@"
}

# launch PLACE NAME CMD starts a daemon; its log and process ID are in the state directory.
launch() {
  local place=$1 name=$2
  shift 2
  # Not by within: the process ID would be a shell's.
  nsenter --net="/run/netns/$(place "$place")" setsid "$@" >"$dir/log/$name" 2>&1 </dev/null &
  echo $! >"$dir/pid/$name"
}

# await SECONDS NAME CMD repeats a command until it succeeds. It gives up early if a daemon has ended.
await() {
  local limit=$((SECONDS + $1)) name=$2 pid
  shift 2
  until "$@" >/dev/null 2>&1; do
    for pid in "$dir"/pid/*; do
      kill -0 "$(cat "$pid")" 2>/dev/null && continue
      echo "cluster.sh: ${pid##*/} ended: $(tail -n 1 "$dir/log/${pid##*/}")" >&2
      return 1
    done
    if [ $SECONDS -ge $limit ]; then
      echo "cluster.sh: $name is not up, see $dir/log" >&2
      return 1
    fi
    sleep 0.1
  done
}

install_packages() {
  local missing=()
  command -v containerd >/dev/null || missing+=(containerd)
  command -v runc >/dev/null || missing+=(runc)
  [ -x /usr/lib/cni/bridge ] || missing+=(containernetworking-plugins)
  command -v nft >/dev/null || missing+=(nftables)
  command -v ip >/dev/null || missing+=(iproute2)
  command -v conntrack >/dev/null || missing+=(conntrack)
  command -v openssl >/dev/null || missing+=(openssl)
  command -v gcc >/dev/null || missing+=(gcc libc6-dev)
  [ ${#missing[@]} -eq 0 ] && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# link PLACE ADDRESS connects a namespace to the bridge of the nodes.
link() {
  ip -n "$(place 1)" link add "to-$1" type veth peer name eth0 netns "$(place "$1")"
  ip -n "$(place 1)" link set "to-$1" master nodes up
  ip -n "$(place "$1")" addr add "$2/24" dev eth0
  ip -n "$(place "$1")" link set eth0 up
}

make_network() {
  local node other
  for node in "${nodes[@]}" outside; do
    ip netns add "$(place "$node")"
    ip -n "$(place "$node")" link set lo up
  done
  ip -n "$(place 1)" link add nodes type bridge
  ip -n "$(place 1)" addr add $api/24 dev nodes
  ip -n "$(place 1)" link set nodes up
  link outside $network.200
  for node in "${nodes[@]}"; do
    if [ "$node" = 1 ]; then
      ip -n "$(place 1)" route add default dev nodes
    else
      link "$node" "$network.$node"
      ip -n "$(place "$node")" route add default via $api
    fi
    within "$node" sysctl -qw net.ipv4.ip_forward=1
    for other in "${nodes[@]}"; do
      [ "$node" = "$other" ] || ip -n "$(place "$node")" route add "$pods.$other.0/24" via "$network.$other"
    done
  done
}

# certificate NAME NAMES makes NAME.key and NAME.crt for a server, signed by ca.key.
certificate() {
  openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
  openssl req -new -key "$1.key" -subj "/CN=$1" |
    openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out "$1.crt" -extfile <(echo "subjectAltName=$2") 2>/dev/null
}

make_keys() {
  cd "$dir/keys"
  openssl ecparam -name prime256v1 -genkey -noout -out ca.key
  openssl req -x509 -new -key ca.key -days 2 -subj /CN=ca -out ca.crt
  certificate apiserver "DNS:kubernetes.default.svc,IP:127.0.0.1,IP:$api,IP:10.96.0.1"
  openssl genrsa -out accounts.key 2048 2>/dev/null
  local token
  token=$(openssl rand -hex 16)
  echo "$token,admin,1,system:masters" >tokens
  cat >"$KUBECONFIG" <<EOF
apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "https://$api:6443", certificate-authority: $dir/keys/ca.crt}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: local, context: {cluster: local, user: admin}}]
current-context: local
EOF
  cd "$dir"
}

start_control_plane() {
  launch 1 etcd "$bin/kube" etcd --data-dir="$dir/etcd" --unsafe-no-fsync --log-level=warn
  launch 1 apiserver "$bin/kube" kube-apiserver --etcd-servers=http://127.0.0.1:2379 --advertise-address=$api \
    --service-cluster-ip-range=$services --authorization-mode=Node,RBAC --allow-privileged \
    --kubelet-preferred-address-types=InternalIP --token-auth-file="$dir/keys/tokens" --cert-dir="$dir/keys" --client-ca-file="$dir/keys/ca.crt" \
    --tls-cert-file="$dir/keys/apiserver.crt" --tls-private-key-file="$dir/keys/apiserver.key" \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$dir/keys/accounts.key" \
    --service-account-signing-key-file="$dir/keys/accounts.key"
  await 60 "the API server" kubectl get --raw /readyz
  # A node that is silent for 8 s is not ready.
  launch 1 controller-manager "$bin/kube" kube-controller-manager --kubeconfig="$KUBECONFIG" --leader-elect=false \
    --root-ca-file="$dir/keys/ca.crt" --service-account-private-key-file="$dir/keys/accounts.key" \
    --use-service-account-credentials --cluster-cidr=$pods.0.0/16 --service-cluster-ip-range=$services \
    --node-monitor-period=1s --node-monitor-grace-period=8s
  launch 1 scheduler "$bin/kube" kube-scheduler --kubeconfig="$KUBECONFIG" --leader-elect=false
  cat >"$dir/Corefile" <<EOF
.:53 {
  bind $api
  errors
  kubernetes cluster.local {
    kubeconfig $KUBECONFIG
    ttl 1
  }
}
EOF
  launch 1 dns "$bin/kube" coredns -conf "$dir/Corefile"
}

# start_node NODE starts a node. The kubelet needs its control groups to exist (version 1), and must not change OOM scores, for which
# root in a container often lacks the capability.
start_node() {
  local node=$1 home=$dir/node$1 group
  mkdir -p "$home"/{cni,manifests}
  for group in /sys/fs/cgroup/*/cgroup.procs; do
    mkdir -p "$(dirname "$group")/$(place "$node")"
  done
  # A node has a machine of its own. On this one, all its pods together would have the share of one thread of a client, so they would stand still
  # for seconds while clients are busy. With this share (version 1, version 2) pods come first.
  for group in /sys/fs/cgroup/{*/,}$(place "$node")/cpu.{shares,weight}; do
    [[ ! -e $group ]] || echo 10000 >"$group"
  done
  cat >"$home/containerd.toml" <<EOF
version = 2
root = "$home/containerd"
state = "$home/run"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = "$home/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$home/cni"
EOF
  cat >"$home/cni/pods.conflist" <<EOF
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{
  "type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$home/addresses", "ranges": [[{"subnet": "$pods.$node.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
EOF
  cat >"$home/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$home/containerd.sock
staticPodPath: $home/manifests
podLogsDir: $dir/log/pods$node
cgroupDriver: cgroupfs
cgroupRoot: /$(place "$node")
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
clusterDomain: cluster.local
clusterDNS: [$api]
resolvConf: ""
makeIPTablesUtilChains: false
nodeStatusUpdateFrequency: 2s
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%, imagefs.inodesFree: 1%}
EOF
  cat >"$home/proxy.yaml" <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: node$node
clusterCIDR: $pods.0.0/16
clientConnection: {kubeconfig: $KUBECONFIG}
conntrack: {maxPerCore: 0, min: 0}
oomScoreAdj: 0
EOF
  launch "$node" "containerd$node" containerd -c "$home/containerd.toml"
  await 30 containerd "${ctr[@]}" -a "$home/containerd.sock" version
  "${ctr[@]}" -a "$home/containerd.sock" images import "$dir/pause.tar" >/dev/null
  launch "$node" "kubelet$node" "$bin/kube" kubelet --config="$home/kubelet.yaml" --kubeconfig="$KUBECONFIG" --root-dir="$home/kubelet" \
    --cert-dir="$home/keys" --hostname-override="node$node" --node-ip="$network.$node" --node-labels="topology.kubernetes.io/zone=zone-$node"
  launch "$node" "proxy$node" "$bin/kube" kube-proxy --config="$home/proxy.yaml"
}
ctr=(timeout 60 ctr -n k8s.io)

# A pod's first container only holds its namespaces.
make_pause() {
  printf '%s\n' '#include <signal.h>' '#include <stdlib.h>' '#include <sys/wait.h>' '#include <unistd.h>' \
    'static void end(int s) { (void)s; _exit(0); }' \
    'static void reap(int s) { (void)s; while (waitpid(-1, 0, WNOHANG) > 0) {} }' \
    'int main(void) { signal(SIGTERM, end); signal(SIGINT, end); signal(SIGCHLD, reap); for (;;) pause(); }' >"$dir/pause.c"
  gcc -static -Os -s -o "$dir/pause" "$dir/pause.c"
  "$bin/image" --name localhost/pause:1 --platform "$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')=$dir/pause" --output "$dir/pause.tar" >/dev/null
}

up() {
  [ ! -e "$dir/pid" ] || { echo "cluster.sh: a cluster runs already; cluster.sh down removes it" >&2; return 1; }
  [ "$(id -u)" = 0 ] || { echo "cluster.sh: network namespaces need root" >&2; return 1; }
  mkdir -p "$dir"/{log,pid} && mkdir -m 700 "$dir"/{etcd,keys}
  make_pause
  make_network
  make_keys
  start_control_plane
  local node
  for node in "${nodes[@]}"; do start_node "$node"; done
  for node in "${nodes[@]}"; do await 60 "node $node" kubectl wait --for=condition=Ready "node/node$node" --timeout=5s; done
  await 30 "the service account" kubectl get serviceaccount default
}

# end NAMES ends daemons by SIGTERM, after 3 s by SIGKILL.
end() {
  local name pids=() left
  for name in "$@"; do pids+=("$(cat "$dir/pid/$name")"); done
  [ ${#pids[@]} -gt 0 ] || return 0
  kill -CONT "${pids[@]}" 2>/dev/null
  kill "${pids[@]}" 2>/dev/null
  for _ in $(seq 30); do
    kill -0 "${pids[@]}" 2>/dev/null || break
    sleep 0.1
  done
  kill -9 "${pids[@]}" 2>/dev/null
  for name in "$@"; do rm -f "$dir/pid/$name"; done
}

daemons() { ls "$dir/pid" 2>/dev/null | grep "$@"; }

mounts() { awk -v dir="$dir/" 'index($2, dir) == 1 {print $2}' /proc/mounts; }

down() {
  set +e
  local node socket task group
  end $(daemons -v '^containerd')
  for socket in "$dir"/node*/containerd.sock; do
    [ -S "$socket" ] || continue
    for task in $("${ctr[@]}" -a "$socket" tasks ls -q); do "${ctr[@]}" -a "$socket" tasks rm -f "$task"; done >/dev/null 2>&1
    pkill -9 -f "containerd-shim-runc-v2 .*-address $socket" # shims outlive containerd
  done
  end $(daemons '^containerd')
  for _ in $(seq 20); do # mounts lie on top of each other, and some are busy for a moment
    mounts | sort -r | xargs -r -n 1 umount -l
    [ -n "$(mounts)" ] || break
    sleep 0.1
  done
  for node in "${nodes[@]}" outside; do ip netns del "$(place "$node")" 2>/dev/null; done
  for node in /run/netns/cni-*; do # pods' own; those of other clusters have processes
    [ -e "$node" ] && [ -z "$(ip netns pids "$(basename "$node")" 2>/dev/null)" ] && ip netns del "$(basename "$node")"
  done
  for group in /sys/fs/cgroup/*/$prefix-[0-9]; do find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; done
  rm -rf --one-file-system "$dir"
}

load() {
  local socket image
  [ $# -gt 0 ] || set -- "$bin"/images/*.tar
  for socket in "$dir"/node*/containerd.sock; do
    for image in "$@"; do "${ctr[@]}" -a "$socket" images import "$image"; done
  done
}

# volume NAMESPACE CLAIM NODE makes a volume that only this claim binds to.
volume() {
  local name=$1-$2 path=$dir/volumes/$1-$2
  kubectl delete persistentvolume "$name" --ignore-not-found
  rm -rf "$path"
  mkdir -p "$path"
  kubectl apply -f - <<EOF
apiVersion: v1
kind: PersistentVolume
metadata: {name: "$name"}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 100Gi}
  claimRef: {namespace: "$1", name: "$2"}
  local: {path: "$path"}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: ["node$3"]}]
EOF
}

kubectl() { within 1 "$bin/kube" kubectl "$@"; }

case ${1:-} in
install) install_packages ;;
up) up ;;
down) down ;;
load) shift; load "$@" ;;
kubectl) shift; kubectl "$@" ;;
helm) shift; within 1 "$bin/helm" "$@" ;;
volume) shift; volume "$@" ;;
in) shift; within "$@" ;;
sockets) ip netns exec "$2" ss --tcp --all --numeric --no-header ;;
kill) "${ctr[@]}" -a "$dir/node$2/containerd.sock" tasks kill --signal SIGKILL "$3" ;;
cut) ip -n "$(place 1)" link set "to-$2" down ;;
join) ip -n "$(place 1)" link set "to-$2" up ;;
*) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac

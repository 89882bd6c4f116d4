#!/bin/sh
# Runs a cluster of real processes on one machine: an etcd, an S3 server, two control planes, and three agents in two zones.
#
#	cluster.sh          start all, name each process that ends or starts later, and stop all at Ctrl-C
#	cluster.sh NAME...  start processes again, for example after a kill
#
# NAME is etcd, store, control-1, control-2, or agent- with a zone and a number below 10: agent-a1, agent-a2, agent-b1, agent-b2 ...
# Logs and process IDs are in data/cluster/NAME.log and NAME.pid. docs/tutorial.md is a tour of this cluster.
set -eu
cd "$(dirname "$0")/../.."
case ${1-} in -*)
	sed -n '2,/^set/ s/^# \{0,1\}//p' deploy/local/cluster.sh
	exit
	;;
esac
for program in ps curl; do
	command -v $program >/dev/null || {
		echo "$program is missing" >&2
		exit 1
	}
done
dir=$PWD/data/cluster
bucket='s3://records/tour?endpoint=http://127.0.0.1:17480&path-style=true&region=us-east-1'
export AWS_ACCESS_KEY_ID=tutorial AWS_SECRET_ACCESS_KEY=tutorial-secret FRESHET_LOG_FORMAT=console
export FRESHET_AGENT_KEY=tutorial FRESHET_OPERATOR_KEY=tutorial-operator

# running reports whether the process of a name runs. A zombie does not, and the number in the file may be of another process by now.
running() {
	[ -f "$dir/$1.pid" ] || return 1
	case $(ps -o stat= -o args= -p "$(cat "$dir/$1.pid")") in
	Z*) return 1 ;;
	*bin/freshet* | *bin/servers/*) ;;
	*) return 1 ;;
	esac
}

# alive fails with the end of the log if a process of these names does not run, for example because its port is taken.
alive() {
	for name in "$@"; do
		running "$name" && continue
		echo "$name ended at its start; the end of $dir/$name.log:" >&2
		tail -n 3 "$dir/$name.log" >&2
		exit 1
	done
}

# start runs the rest of its arguments in the background under a name.
start() {
	name=$1
	shift
	if running "$name"; then
		echo "$name runs already" >&2
		exit 1
	fi
	nohup "$@" >>"$dir/$name.log" 2>&1 </dev/null &
	echo $! >"$dir/$name.pid"
}

control_plane() {
	start "control-$1" bin/freshet controlplane --virtual-cluster main --bucket "$bucket" --etcd 127.0.0.1:12379 --replica-id "control-$1" \
		--grpc-listen "127.0.0.1:1705$1" --advertise "127.0.0.1:1705$1" --http-listen "127.0.0.1:1805$1" --memory-limit 256MiB
}

# agent takes a zone and a number. The ports of an agent of zone a begin with 1, those of zone b with 2.
agent() {
	case $1 in a) digit=1 ;; b) digit=2 ;; esac
	start "agent-$1$2" bin/freshet agent --virtual-cluster main --bucket "$bucket" --control-plane 127.0.0.1:17051,127.0.0.1:17052 \
		--zone "$1" --zone-listeners "127.0.0.1:${digit}92${2}0=a,b" --kafka-listen "127.0.0.1:${digit}90${2}0" \
		--peer-listen "127.0.0.1:${digit}70${2}0" --http-listen "127.0.0.1:${digit}80${2}0" --memory-limit 256MiB
}

process() {
	case $1 in
	etcd)
		start etcd bin/servers/etcd --name etcd --data-dir "$dir/etcd" --log-level warn --listen-client-urls http://127.0.0.1:12379 \
			--advertise-client-urls http://127.0.0.1:12379 --listen-peer-urls http://127.0.0.1:12380 \
			--initial-advertise-peer-urls http://127.0.0.1:12380 --initial-cluster etcd=http://127.0.0.1:12380
		;;
	store)
		mkdir -p "$dir/store/records" "$dir/sidecar"
		start store bin/servers/versitygw --access "$AWS_ACCESS_KEY_ID" --secret "$AWS_SECRET_ACCESS_KEY" --port 127.0.0.1:17480 --quiet \
			--keep-alive --health /health posix --sidecar "$dir/sidecar" "$dir/store"
		;;
	control-[12]) control_plane "${1#control-}" ;;
	agent-[ab][1-9])
		n=${1#agent-}
		agent "${n%?}" "${n#?}"
		;;
	*)
		echo "no process of this name: $1; the names are etcd, store, control-1, control-2, agent-a1 to agent-a9, agent-b1 to agent-b9" >&2
		exit 2
		;;
	esac
}

# ready waits until a process answers 200 at a URL.
ready() {
	tries=0
	until curl -sf -o /dev/null "$2"; do
		alive "$1"
		tries=$((tries + 1))
		if [ $tries -gt 300 ]; then
			echo "$1 is not ready after 30 s: see $dir/$1.log" >&2
			exit 1
		fi
		sleep 0.1
	done
}

# stop ends every process: agents first, so that they can hand over.
stop() {
	trap - EXIT INT TERM
	for kind in agent control store etcd; do
		for file in "$dir/$kind"*.pid; do
			running "$(basename "$file" .pid)" || continue
			kill -CONT "$(cat "$file")" 2>/dev/null || true
			kill "$(cat "$file")" 2>/dev/null || true
		done
		for file in "$dir/$kind"*.pid; do
			[ -f "$file" ] || continue
			while running "$(basename "$file" .pid)"; do sleep 0.1; done
			rm -f "$file"
		done
	done
}

mkdir -p "$dir"
for file in "$dir"/*.pid; do
	[ -f "$file" ] && ! running "$(basename "$file" .pid)" && rm "$file"
done
if [ $# -gt 0 ]; then
	for name in "$@"; do process "$name"; done
	exit
fi
for file in "$dir"/*.pid; do
	[ -f "$file" ] || continue
	echo "a cluster runs already, with $(basename "$file" .pid): stop it with Ctrl-C in its terminal, or with kill \$(cat data/cluster/*.pid)" >&2
	exit 1
done
trap stop EXIT
trap 'exit 0' INT TERM
for name in etcd store; do process "$name"; done
ready etcd http://127.0.0.1:12379/health
ready store http://127.0.0.1:17480/health
for name in control-1 control-2; do process "$name"; done
ready control-1 http://127.0.0.1:18051/readyz
for name in agent-a1 agent-a2 agent-b1; do process "$name"; done
ready agent-a1 http://127.0.0.1:18010/readyz
ready agent-a2 http://127.0.0.1:18020/readyz
ready agent-b1 http://127.0.0.1:28010/readyz
zones() { bin/freshet zone list --control-plane-http 127.0.0.1:18051,127.0.0.1:18052 --virtual-cluster main 2>/dev/null | wc -l; }
all='etcd store control-1 control-2 agent-a1 agent-a2 agent-b1'
while [ "$(zones)" -lt 3 ]; do # a heading and two zones
	alive $all
	sleep 0.2
done
alive $all # another process may have answered in the place of one
cat <<EOF
The cluster is ready. Kafka clients of zone a: 127.0.0.1:19210,127.0.0.1:19220. Clients of zone b: 127.0.0.1:29214.
Logs and data are in $dir. Ctrl-C stops all processes; the data stay.
EOF

# processes lists NAME:PID of the processes that run.
processes() {
	for file in "$dir"/*.pid; do
		name=$(basename "$file" .pid)
		if running "$name"; then echo "$name:$(cat "$file")"; fi
	done
}

before=$(processes)
while :; do
	sleep 1
	now=$(processes)
	for p in $before; do
		echo "$now" | grep -qx "$p" || echo "${p%:*} ended; its log is $dir/${p%:*}.log. To start it again: deploy/local/cluster.sh ${p%:*}"
	done
	for p in $now; do
		echo "$before" | grep -qx "$p" || echo "${p%:*} started"
	done
	if [ -n "$before" ] && [ -z "$now" ]; then echo "no process is left. Ctrl-C ends this script; make cluster starts all again with the same data"; fi
	before=$now
done

#!/usr/bin/env bash
# Signs up at a hosted control plane, starts the agent of the answer beside a bucket, produces one record and reads it back with kcat. Prints the
# seconds from the call to the record's acknowledgement. Needs curl, kcat and python3.
#
#   API=https://cp.example.com:8443 BUCKET='s3://records/freshet?region=eu-central-1' test/tenants/signup.sh
#
# CA names the certificates to trust, if they are not the system's. FRESHET names the program, LISTEN the agent's Kafka address.
set -euo pipefail

: "${API:?the address of the HTTP API, https://host:port}" "${BUCKET:?the URL of the bucket of the records}"
FRESHET=${FRESHET:-freshet} LISTEN=${LISTEN:-127.0.0.1:9092}
dir=$(mktemp -d)
agent=
cleanup() {
  if [ -n "$agent" ]; then
    kill "$agent" 2>/dev/null || true
    wait "$agent" || true
  fi
  rm -rf "$dir"
}
trap cleanup EXIT

unique=$(od -An -N6 -tx1 /dev/urandom | tr -d ' \n')
cat >"$dir/team.json" <<JSON
{"email": "user-$unique@example.com", "password": "$unique-$unique", "team": "orders", "cluster": "main"}
JSON

began=$(date +%s.%N)
since() { awk -v began="$began" -v now="$(date +%s.%N)" 'BEGIN { printf "%.2f", now - began }'; }

if ! curl -sS --fail-with-body ${CA:+--cacert "$CA"} -X POST "$API/v1/signup" -H 'Content-Type: application/json' -d @"$dir/team.json" >"$dir/answer.json"; then
  cat "$dir/answer.json" >&2
  exit 1
fi
answer() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))'"$1"')' "$dir/answer.json"; }
control_plane=$(answer '["control_plane"]')
echo "virtual cluster $(answer '["cluster"]["id"]') and control plane $control_plane after $(since) s"

key=$(answer '["agent_key"]["key"]')
FRESHET_AGENT_KEY=$key "$FRESHET" agent --control-plane "$control_plane" --control-plane-tls ${CA:+--control-plane-tls-ca "$CA"} \
  --bucket "$BUCKET" --zone a --kafka-listen "$LISTEN" --http-listen 127.0.0.1:0 --peer-listen 127.0.0.1:0 >"$dir/agent.log" 2>&1 &
agent=$!

# kcat gives up at once if nothing listens.
until (: <>"/dev/tcp/${LISTEN%:*}/${LISTEN##*:}") 2>/dev/null; do
  if ! kill -0 "$agent" 2>/dev/null; then
    cat "$dir/agent.log" >&2
    exit 1
  fi
  sleep 0.05
done
if ! echo "record of $unique" | kcat -P -b "$LISTEN" -t first 2>"$dir/kcat.log"; then
  cat "$dir/kcat.log" "$dir/agent.log" >&2
  exit 1
fi
echo "first acknowledged record after $(since) s"

read_back=$(kcat -C -b "$LISTEN" -t first -o beginning -c 1 2>/dev/null)
if [ "$read_back" != "record of $unique" ]; then
  echo "read back: $read_back, want: record of $unique" >&2
  exit 1
fi

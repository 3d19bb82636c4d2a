#!/usr/bin/env bash
# A distance or a matrix over Flower on this machine: every step of docs/deploy-flower.md, with a process for each site and
# 127.0.0.1 in place of the host names. Leaves neither files nor processes behind.
#
#   scripts/flower-loopback.sh            # two sites, a distance
#   scripts/flower-loopback.sh 3          # three sites, all distances
#   PYTHON=/path/to/python scripts/flower-loopback.sh
set -euo pipefail

count=${1:-2}
python=${PYTHON:-$(cd "$(dirname "$0")/.." && pwd)/.venv/bin/python}
export PATH="$(dirname "$python"):$PATH"
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
folder=$(mktemp -d)
pids=()

clean_up() {
    status=$?
    trap - EXIT INT TERM
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    unset FLWR_HOME # wait for the processes that the SuperLink started
    for _ in $(seq 75); do
        grep -qsz "^FLWR_HOME=$folder" /proc/[0-9]*/environ || break
        sleep 0.2
    done
    if [ "$status" -ne 0 ]; then tail -n 20 "$folder"/*.log >&2 || true; fi
    rm -rf "$folder"
    exit "$status"
}
trap clean_up EXIT INT TERM
cd "$folder"
export FLWR_HOME="$folder/flwr"

echo "1. The SuperLink: a certificate authority, and a certificate for its address"
openssl req -x509 -newkey rsa:3072 -nodes -days 365 -subj "/CN=fedwad SuperLink" -keyout ca.key -out ca.crt 2>/dev/null
openssl req -newkey rsa:3072 -nodes -subj "/CN=superlink" -keyout server.key -out server.csr 2>/dev/null
printf 'subjectAltName=IP:127.0.0.1\n' > san.txt
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile san.txt -out server.pem 2>/dev/null

echo "2. The SuperLink, with TLS and with nodes known by their keys"
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
flower-superlink --host 127.0.0.1 --port "$port" --ssl-ca-certfile ca.crt --ssl-certfile server.pem --ssl-keyfile server.key \
    --enable-supernode-auth --disable-runtime-dependency-installation > superlink.log 2>&1 &
pids+=($!)
mkdir -p "$FLWR_HOME"
printf '[superlink.fedwad]\naddress = "127.0.0.1:%s"\nroot-certificates = "%s/ca.crt"\n' "$port" "$folder" > "$FLWR_HOME/config.toml"
for _ in $(seq 150); do
    if openssl s_client -connect "127.0.0.1:$port" -CAfile ca.crt < /dev/null > /dev/null 2>&1; then break; fi
    sleep 0.4
done

names=()
for name in paris oslo rome lima; do
    [ "${#names[@]}" -lt "$count" ] || break
    names+=("$name")
    echo "3. $name: data, a policy, a key, and a node that runs fedwad and nothing else"
    "$python" -c "
import numpy as np
rng = np.random.default_rng(${#names[@]})
np.savetxt('$name.csv', rng.normal(${#names[@]}, 1, (500, 4)), delimiter=',', header='age,weight,height,pulse', comments='')"
    printf 'name = "%s"\nallow = ["describe", "columns", "summary", "transport", "cells"]\nmin_cell_size = 10\n' "$name" > "$name.toml"
    ssh-keygen -q -t ecdsa -b 384 -N "" -C "$name" -f "$name"
    flwr supernode register "$name.pub" fedwad --name "$name" > /dev/null
    fedwad node flower --superlink "127.0.0.1:$port" --ca ca.crt \
        --key "$name" --data "$name.csv" --policy "$name.toml" > "$name.log" 2>&1 &
    pids+=($!)
done

echo "4. The analyst: asks"
if [ "$count" -le 2 ]; then
    ask=(distance "${names[@]}" --method summary)
else
    ask=(matrix "${names[@]}")
fi
# Exit code 3 says that the sites differ, 4 that there are too few rows to tell.
fedwad "${ask[@]}" --engine flower --connect "127.0.0.1:$port" --ca ca.crt || { code=$?; [ "$code" -eq 3 ] || [ "$code" -eq 4 ]; }

echo "5. paris: what was asked of it"
fedwad ledger show paris.ledger.sqlite

#!/usr/bin/env bash
# A distance and a matrix over NVIDIA FLARE on this machine, with the commands of docs/deploy-flare.md: a server, two
# sites and an analyst, each with a private key that it made itself. Leaves neither files nor processes behind.
#
#   bash scripts/flare-loopback.sh [PYTHON]      (a Python with fedwad[flare]; python3 when left out)
set -euo pipefail
python=$(realpath -s "$(command -v "${1:-python3}")")
folder=$(mktemp -d)
cd "$folder"
export HOME=$folder PATH=$(dirname "$python"):$PATH  # FLARE keeps records of certificates in the home folder
nvflare() { "$python" -m nvflare.cli "$@" > /dev/null; }
# Exit code 3 says that the sites differ, 4 that there are too few rows to tell.
fedwad() { "$python" -m fedwad "$@" || { code=$?; [ "$code" -eq 3 ] || [ "$code" -eq 4 ]; }; }

clean_up() {  # FLARE gives each job a process in a session of its own, so find processes by the folder in their command
    trap - EXIT INT TERM
    for command in /proc/[0-9]*/cmdline; do
        if tr '\0' '\n' < "$command" 2> /dev/null | grep -q "^$folder/"; then
            pid=${command#/proc/}
            kill -9 "${pid%/cmdline}" 2> /dev/null || true
        fi
    done
    cd / && rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

echo "1. the project: a root certificate"
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat > project.yml << END
name: fedwad
scheme: http
connection_security: mtls
server: {host: localhost, fed_learn_port: $port, admin_port: $port}
END
nvflare cert init --profile project.yml -o authority
fingerprint=SHA256:$(openssl x509 -in authority/rootCA.pem -noout -fingerprint -sha256 | cut -d= -f2)

echo "2. each participant: a key and a request; the project: its approval; each participant: its kit"
join() {  # name, type, role
    echo "{name: fedwad, participants: [{name: $1, type: $2, org: lab${3:+, role: $3}}]}" > "$1.yml"
    nvflare cert request -p "$1.yml"
    nvflare cert approve "$1/$1.request.zip" -c authority --profile project.yml
    nvflare package "$1/$1.signed.zip" --request-dir "$1" --fingerprint "$fingerprint" -w .
}
join localhost server
join analyst@fedwad.test admin lead
for name in paris oslo; do join "$name" client; done
kits=$folder/fedwad/prod_00

echo "3. the server"
"$python" -m fedwad.engines.flare.startup_kit server "$kits/localhost"
start() { bash "$kits/$1/startup/sub_start.sh" --once > "$1.log" 2>&1 & disown; }  # startup/start.sh would restart it when it fails
start localhost

echo "4. the sites: data, policy, node"
for name in paris oslo; do
    "$python" -c 'import numpy, sys, zlib
seed = zlib.crc32(sys.argv[1].encode())
numpy.save(sys.argv[1], numpy.random.default_rng(seed).normal(seed % 3, 1.0, (300, 2)))' "$name.npy"
    cat > "$name.toml" << END
name = "$name"
contact = "data@$name.example.org"
allow = ["describe", "columns", "summary", "transport", "cells"]
END
    fedwad node flare "$kits/$name" --data "$name.npy" --policy "$name.toml"
    start "$name"
done

echo "5. the analyst, once the sites are there"
kit=$kits/analyst@fedwad.test
for _ in $(seq 20); do
    status=0
    fedwad distance paris oslo --method fedwad --support 10 --engine flare --connect "$kit" --timeout 300 && break
    status=$?
    sleep 1
done
[ "$status" = 0 ] || { tail -n 5 ./*.log; exit 1; }
fedwad matrix paris oslo --engine flare --connect "$kit" --timeout 300

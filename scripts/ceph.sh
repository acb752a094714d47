#!/usr/bin/env bash
# Ceph's S3 gateway (radosgw) over one monitor and one store in memory, on 127.0.0.1: a second opinion beside SeaweedFS
# on versions, delete markers, policies and tags. Everything it writes lies below DIR; its objects only in memory.
#
#   scripts/ceph.sh install       the Debian packages (about 75 MB to fetch), if they are missing
#   scripts/ceph.sh start DIR     starts afresh, waits until it answers; DIR/env then has ZARO_TEST_CEPH
#   scripts/ceph.sh stop  DIR     ends what start started
#
# The gateway takes the access key `zaro` with the secret `zaro-secret`.
set -euo pipefail

command=${1:?install, start or stop}

# Debian puts some of these where only root looks.
PATH=$PATH:/usr/sbin:/sbin

is_here() { command -v radosgw && command -v radosgw-admin && command -v ceph && command -v ceph-mon && command -v ceph-osd; }

install() {
    is_here >/dev/null && return 0
    command -v apt-get >/dev/null || { echo "no apt-get: not a Debian machine" >&2; return 1; }
    local as_root=()
    if ((EUID)); then
        sudo -n true 2>/dev/null || { echo "not root, and no sudo without a password" >&2; return 1; }
        as_root=(sudo -n)
    fi
    # Debian starts services of packages; none is wanted here, and without systemd it would fail.
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 timeout 600 apt-get -qq -o DPkg::Lock::Timeout=300)
    local packages=(radosgw ceph-mon ceph-osd ceph-common)
    "${apt[@]}" install -y --no-install-recommends "${packages[@]}" >/dev/null && return 0
    "${apt[@]}" update
    "${apt[@]}" install -y --no-install-recommends "${packages[@]}" >/dev/null
    is_here >/dev/null
}

free_ports() {
    python3 -c '
import socket
held = [socket.socket() for _ in range(2)]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))'
}

# await SECONDS PID COMMAND...: until the command succeeds; fails when the process is gone or the time is up.
await() {
    local end=$((SECONDS + $1)) pid=$2
    shift 2
    until timeout 15 "$@" >/dev/null 2>&1; do
        kill -0 "$pid" 2>/dev/null || { echo "it ended while we waited for: $*" >&2; return 1; }
        ((SECONDS < end)) || { echo "timed out waiting for: $*" >&2; return 1; }
        sleep 0.2
    done
}

start() {
    local dir=$1 mon_port port fsid osd
    stop "$dir"
    rm -rf "$dir"
    mkdir -p "$dir"/{mon,osd,log,run}
    dir=$(cd "$dir" && pwd)
    is_here >/dev/null || { echo "the programs of Ceph are not installed; see scripts/ceph.sh install" >&2; return 1; }
    read -r mon_port port < <(free_ports)
    fsid=$(</proc/sys/kernel/random/uuid)
    osd=$(</proc/sys/kernel/random/uuid)
    # A full disk must not end the monitor, which keeps next to nothing. No sockets for administrators: the path of one
    # may be longer than such a name can be. The gateway talks to the monitor without keys only in crc mode, and waits
    # 40 ms a request unless told not to.
    cat >"$dir/ceph.conf" <<CONF
[global]
fsid = $fsid
mon host = [v2:127.0.0.1:$mon_port/0]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
run dir = $dir/run
admin socket =
log file = $dir/log/\$name.log
log to stderr = false
err to stderr = true
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
mon data = $dir/mon
mon data avail crit = 0
mon data avail warn = 0
mon osd full ratio = 1
mon osd nearfull ratio = 1
mon osd backfillfull ratio = 1
[osd]
osd data = $dir/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd class load list = *
osd class default list = *
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:$port tcp_nodelay=1
ms mon client mode = crc
rgw thread pool size = 64
rgw run sync thread = false
rgw enable usage log = false
rgw enable ops log = false
rgw enable lc threads = false
rgw crypt require ssl = false
CONF
    export CEPH_CONF=$dir/ceph.conf CEPH_ARGS=
    local mon_pid osd_pid rgw_pid
    run() {
        "$@" >>"$dir/log/output" 2>&1 &
        echo $! >>"$dir/pids"
    }
    monmaptool --create --clobber --fsid "$fsid" --addv a "[v2:127.0.0.1:$mon_port]" "$dir/monmap" >/dev/null || return
    ceph-mon --mkfs -i a --monmap "$dir/monmap" --mon-data "$dir/mon" || return
    run ceph-mon -f -i a --mon-data "$dir/mon"
    mon_pid=$!
    await 40 "$mon_pid" ceph --connect-timeout 10 mon stat || return
    timeout 30 ceph osd new "$osd" >/dev/null || return
    ceph-osd -i 0 --mkfs --osd-uuid "$osd" >>"$dir/log/output" 2>&1 || return
    timeout 30 ceph osd crush add osd.0 1 root=default host=localhost >/dev/null 2>&1 || return
    run ceph-osd -f -i 0
    osd_pid=$!
    await 60 "$osd_pid" bash -c 'ceph osd stat | grep -q "1 up"' || return
    timeout 90 radosgw-admin -n client.rgw user create --uid=zaro --display-name=zaro --access-key=zaro \
        --secret-key=zaro-secret >"$dir/log/user" 2>&1 || return
    run radosgw -f -n client.rgw
    rgw_pid=$!
    await 60 "$rgw_pid" curl --silent --fail --output /dev/null "http://127.0.0.1:$port/" || return
    echo "export ZARO_TEST_CEPH=http://127.0.0.1:$port" >"$dir/env"
}

stop() {
    local dir=$1 pid
    [[ -e $dir/pids ]] || return 0
    # The gateway first, then what it stands on. None has anything to save, so none is given long.
    for pid in $(tac "$dir/pids"); do
        kill "$pid" 2>/dev/null || continue
        for _ in $(seq 30); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null || true
    done
    rm -f "$dir/pids"
}

# Twice, since a machine under load may be late once.
start_or_say_why() {
    local dir=$1 try
    for try in 1 2; do
        if start "$dir"; then
            return 0
        fi
        echo "Ceph did not start (try $try):" >&2
        tail -n 15 "$dir"/log/* >&2 2>/dev/null || true
        stop "$dir"
    done
    return 1
}

case $command in
install) install ;;
start) start_or_say_why "${2:?a folder}" ;;
stop) stop "${2:?a folder}" ;;
*) echo "install, start or stop" >&2; exit 2 ;;
esac

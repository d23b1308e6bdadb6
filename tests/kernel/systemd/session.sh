# Run by a systemd as its only service; what it says is shown by the test that started it.
# UNIT is the unit file, LARIAT the program, SITE a folder with site.pem and ca.pem, PORT a free
# port of loopback, SERVER the address of an HTTP server.
set -euo pipefail
trap 'echo "line $LINENO failed"; systemctl status --no-pager lariat' ERR

property() { systemctl show --value -p "$1" lariat; }
is() {
    [ "$(property "$1")" = "$2" ] || { echo "$1 is $(property "$1"), not $2"; return 1; }
}
# Waits for what is bound to come.
until_is() {
    for _ in {1..300}; do ! is "$1" "$2" >/dev/null || return 0; sleep 0.1; done
    is "$1" "$2"
}
served() {
    curl --silent --show-error --fail --max-time 30 --cacert "$SITE/ca.pem" \
        --resolve "localhost:$PORT:127.0.0.1" "https://localhost:$PORT/" >/dev/null
}
configured() {
    cat >/etc/lariat/lariat.toml <<END
$1
[[service]]
name = "web"
front = { listen = ["127.0.0.1:$PORT"], tls = { certificates = ["/etc/lariat/site.pem"] } }
back = { servers = ["$SERVER"] }
END
}

# Not a link: the folder that it is in may be one that the unit does not see.
touch /usr/bin/lariat
mount --bind "$LARIAT" /usr/bin/lariat
mkdir -p /etc/lariat /run/systemd/system/lariat.service.d
cp "$SITE/site.pem" /etc/lariat/
cp "$UNIT" /run/systemd/system/lariat.service
systemd-analyze verify --man=no /run/systemd/system/lariat.service
# What the unit starts before itself is not there to be started, and its watchdog is patient.
cat >/run/systemd/system/lariat.service.d/quick.conf <<END
[Unit]
DefaultDependencies=no
StartLimitIntervalSec=0
[Service]
WatchdogSec=5
END
configured ""
systemctl daemon-reload

echo "== a start that returns when it serves"
systemctl start lariat
served
is SubState running
case $(property StatusText) in "serving 1 service"*) ;; *) property StatusText; false ;; esac

echo "== a reload, and one that is refused"
systemctl reload lariat
configured "[process]
drane = 1"
! systemctl reload lariat 2>/dev/null
until_is SubState running
case $(property StatusText) in *"the last reload was refused: "*) ;; *) property StatusText; false ;; esac
served
configured ""

echo "== an upgrade, after which the main process is the same"
before=$(property MainPID)
worker=$(pgrep -P "$before" -f 'lariat: worker')
lariat upgrade /etc/lariat/lariat.toml
until_is SubState running
is MainPID "$before"
[ "$(pgrep -n -P "$before" -f 'lariat: worker')" != "$worker" ]
served
# The watchdog hears of the new program.
for _ in {1..300}; do [ -e "/proc/$worker" ] || break; sleep 0.1; done
[ ! -e "/proc/$worker" ]
sleep 6
is MainPID "$before"
is SubState running
is NRestarts 0
served

echo "== a watchdog that ends what stands still"
main=$(property MainPID)
for worker in $(cat "/proc/$main/task/$main/children"); do kill -STOP "$worker"; done
until_is NRestarts 1
until_is SubState running
served

echo "== an end by a drain"
systemctl stop lariat
is Result success

echo "== a restart that nobody notices"
systemctl start lariat
ask() {
    openssl s_client -connect "127.0.0.1:$PORT" -servername localhost -CAfile "$SITE/ca.pem" \
        -tls1_2 "$@" </dev/null 2>/dev/null
}
ask -sess_out "$SITE/session" | grep '^New, ' >/dev/null
kept=$(property NFileDescriptorStore)
[ "$kept" -ge 3 ] || { echo "$kept descriptors are kept"; false; }
while [ ! -e "$SITE/done" ]; do served && echo served || echo refused; done >"$SITE/load" 2>&1 &
load=$!
for _ in 1 2 3; do
    systemctl restart lariat
    until_is SubState running
    ask -sess_in "$SITE/session" | grep '^Reused, ' >/dev/null
done
# A crash: nobody is refused who comes while nobody serves.
before=$(grep -c served "$SITE/load")
[ "$before" -gt 3 ]
touch "$SITE/done"
wait $load
! grep -v served "$SITE/load" || false
kill -KILL "$(property MainPID)"
served
until_is NRestarts 1
ask -sess_in "$SITE/session" | grep '^Reused, ' >/dev/null
systemctl is-active --quiet lariat
is NFileDescriptorStore "$kept"

echo "== an upgrade, after which the store is the same; an end that closes it"
lariat upgrade /etc/lariat/lariat.toml
until_is NFileDescriptorStore "$kept"
mkfifo "$SITE/request"
openssl s_client -connect "127.0.0.1:$PORT" -servername localhost -CAfile "$SITE/ca.pem" \
    -tls1_2 -quiet <"$SITE/request" >"$SITE/answer" 2>/dev/null &
client=$!
exec 3>"$SITE/request"
printf 'GET / HTTP/1.1\r\nHost: localhost\r\n' >&3
until_is StatusText "serving 1 service, 1 connection open"
systemctl restart --no-block lariat
# The drain waits for the client, although the program is not the one that systemd has started.
until_is SubState stop-sigterm
printf 'Connection: close\r\n\r\n' >&3
for _ in {1..300}; do ! grep '^HTTP/1.1 200' "$SITE/answer" >/dev/null || break; sleep 0.1; done
grep '^HTTP/1.1 200' "$SITE/answer" >/dev/null
kill $client
exec 3>&-
until_is SubState running
served
lariat drain /etc/lariat/lariat.toml
until_is SubState dead
is NFileDescriptorStore 0
! served 2>/dev/null

echo "== a wrong configuration, which is not tried again"
configured "[process]
drane = 1"
! systemctl start lariat 2>/dev/null
is SubState failed
is ExecMainStatus 2
is NRestarts 0
configured ""

echo "== a socket that outlives restarts"
cat >/run/systemd/system/lariat.socket <<END
[Unit]
DefaultDependencies=no
[Socket]
ListenStream=127.0.0.1:$PORT
END
systemctl daemon-reload
systemctl reset-failed lariat
systemctl start lariat.socket
is SubState dead
served
is SubState running
for _ in 1 2 3; do
    systemctl restart --no-block lariat
    for _ in 1 2 3; do served; done
done
until_is SubState running
systemctl stop lariat.socket lariat
is Result success
echo "== done"

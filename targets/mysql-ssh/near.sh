cd "{{ folder }}" || exit 1
until [ -e ready ]; do sleep 0.02; done
tunnel() {
    ssh -F none -N -i user -l "$(id -un)" -p {{ listen.port }} -o UserKnownHostsFile=known \
        -o LogLevel=ERROR -o BatchMode=yes -o ExitOnForwardFailure=yes \
        -L "{{ listen.address }}:{{ folder }}/mysql.sock" 127.77.0.1
}
# sshd may not listen yet.
for attempt in 1 2 3 4 5; do
    tunnel
    sleep 0.2
done
exit 1

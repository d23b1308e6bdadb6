# The terminators, each of which is begun again two seconds after it ended, their session store if
# they have one, and the balancer before them.
cd "{{ folder }}" || exit 1
umask 077
head -c 64 /dev/urandom > secret

node() {
    sed "s/NODE/$1/g; /# node $1$/d" node.toml > "node$1.toml"
    while :; do
        "{{ program }}" serve "node$1.toml" &
        echo $! > "node$1.pid"
        wait $!
        sleep 2
    done
}

{% if session_store %}
command -v redis-server > /dev/null || {
    echo "error: the sessions of this farm are kept by redis-server, which is not installed" >&2
    exit 1
}
redis-server --bind 127.77.1.1 --port {{ listen.port }} --save "" --appendonly no \
    --dir "{{ folder }}" --logfile store.log &
until grep -qs "Ready to accept connections" store.log; do
    kill -0 $! || { cat store.log >&2; exit 1; }
    sleep 0.02
done
{% endif %}
{% for number in range(1, nodes + 1) %}
node {{ number }} &
{% endfor %}
{% for number in range(1, nodes + 1) %}
until [ -S node{{ number }}.sock ]; do sleep 0.02; done
{% endfor %}
exec "{{ program }}" serve balancer.toml

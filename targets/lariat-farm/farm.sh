# The terminators, each of which is begun again two seconds after it ended, and the balancer before
# them.
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

{% for number in range(1, nodes + 1) %}
node {{ number }} &
{% endfor %}
{% for number in range(1, nodes + 1) %}
until [ -S node{{ number }}.sock ]; do sleep 0.02; done
{% endfor %}
exec "{{ program }}" serve balancer.toml

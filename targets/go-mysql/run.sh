# The driver is Debian's package, which has no module: it is built the way of before modules, once in
# a run.
{% if is_tls %}
authorities="{{ authorities }}"
{% endif %}
[ -x client ] || GO111MODULE=off GOPATH=/usr/share/gocode CGO_ENABLED=0 "$1" build -o client main.go || exit 1
exec ./client "{{ address }}" "{{ connections }}" "{{ seconds }}" "$authorities"

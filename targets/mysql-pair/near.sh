cd "{{ folder }}" || exit 1
until [ -e ready ]; do sleep 0.02; done
exec "{{ program }}" serve near.toml

ssh-keygen -q -t ed25519 -N "" -f host
ssh-keygen -q -t ed25519 -N "" -f user
cp user.pub authorized
echo "[127.77.0.1]:{{ listen.port }} $(cat host.pub)" >known
{% if is_root %}
mkdir -p /run/sshd
{% endif %}
front() { "{{ program }}" -D -e -f "$PWD/sshd.conf" & }

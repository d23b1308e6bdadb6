# sysbench finds what TLS needs by fixed names; the server has made the client's part.
{% if is_tls %}
cp ../mysql-data/client-key.pem ../mysql-data/client-cert.pem .
cp "{{ authorities }}" cacert.pem
{% endif %}
exec "$@"

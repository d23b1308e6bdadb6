{% for one in certificates if one.kind == "rsa2048" %}
options="--bind-address={{ listen.host }} --port={{ listen.port }} --require-secure-transport"
options="$options --ssl-cert={{ one.chain }} --ssl-key={{ one.key }} --ssl-ca=$data/client-cert.pem"
{% endfor %}

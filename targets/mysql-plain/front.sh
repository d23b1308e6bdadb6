options="--bind-address={{ listen.host }} --port={{ listen.port }}"

# MariaDB on a Unix socket, and on TCP if front.sh sets options that say so; then what clients
# connect to, if front.sh has it. Tables are made once in a run: 8 of 100,000 rows.
cd "{{ folder }}" || exit 1
PATH=$PATH:/usr/sbin
data=$(realpath ..)/mysql-data
own="--no-defaults --socket={{ folder }}/mysql.sock --pid-file={{ folder }}/mysql.pid"
own="$own --skip-log-bin --skip-name-resolve --innodb-buffer-pool-size=512M --max-connections=500"
{% if is_root %}
own="$own --user=root"
{% endif %}

is_ready() {
    mariadb-admin --no-defaults --socket=mysql.sock --user=bench --password=bench ping >ping 2>&1
}

make_tables() {
    new=$data.new
    rm -rf "$new"
    mariadb-install-db $own --datadir="$new" --skip-test-db \
        --auth-root-authentication-method=normal || return 1
    # A statement a line.
    cat >users.sql <<'END'
CREATE DATABASE bench;
CREATE USER bench IDENTIFIED VIA mysql_native_password USING PASSWORD('bench');
GRANT ALL ON bench.* TO bench;
END
    mariadbd $own --datadir="$new" --skip-networking --innodb-flush-log-at-trx-commit=0 \
        --init-file="$PWD/users.sql" &
    until is_ready; do sleep 0.05; kill -0 $! || return 1; done
    sysbench oltp_read_only --db-driver=mysql --mysql-socket=mysql.sock --mysql-user=bench \
        --mysql-password=bench --mysql-db=bench --tables=8 --table-size=100000 prepare || return 1
    mariadb-admin --no-defaults --socket=mysql.sock --user=root shutdown || return 1
    wait $!
    # The certificate of sysbench, which cannot do without one.
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=bench -days 2 \
        -keyout "$new/client-key.pem" -out "$new/client-cert.pem" || return 1
    mv "$new" "$data"
}

if [ ! -d "$data" ]; then
    make_tables >tables 2>&1 || { tail -n 4 tables; exit 1; }
fi

options=--skip-networking
front() { :; }
. ./front.sh
mariadbd $own --datadir="$data" $options &
until is_ready; do sleep 0.02; kill -0 $! || exit 1; done
# Pages come from memory, as those of a server that has run for a while.
for number in 1 2 3 4 5 6 7 8; do
    echo "SELECT COUNT(*), MAX(LENGTH(pad)) FROM sbtest$number FORCE INDEX (PRIMARY);"
done | mariadb --no-defaults --socket=mysql.sock --user=bench --password=bench bench >warm || exit 1
touch ready
front
wait $!

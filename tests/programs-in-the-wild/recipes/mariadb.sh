# package: mariadb-server
# needs: mariadbd sysbench mariadb-install-db
# version: mariadbd --version
# does: sysbench read-only, 8 threads
# seconds: 180
# user: nobody
prepare() { mariadb-install-db --no-defaults --datadir="$SHARED/data" --auth-root-authentication-method=normal --skip-test-db >/dev/null 2>&1; }
run() { port=$(free_port); cp -r "$SHARED/data" "$WORK/data"
    serve "$port" $RUN mariadbd --no-defaults --datadir="$WORK/data" --port="$port" --bind-address=127.0.0.1 --socket="$WORK/s" --pid-file="$WORK/pid" --skip-log-bin --innodb-buffer-pool-size=64M || return
    mariadb --no-defaults -u root -S "$WORK/s" -e 'CREATE DATABASE sbtest; SELECT 6 * 7;'
    s="sysbench oltp_read_only --mysql-socket=$WORK/s --mysql-user=root --table-size=10000 --threads=8 --time=3 --percentile=99"
    $s prepare >/dev/null && under_load $s run && figure rate "$(sed -n 's/.*queries: .*(\(.*\) per sec.*/\1/p' "$WORK/client")" && figure p99 "$(awk '/99th percentile/ { print $3 }' "$WORK/client")" && stop; }

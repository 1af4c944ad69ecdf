# package: postgresql
# needs: postgres initdb pgbench
# version: postgres --version
# does: pgbench -S, 8 connections
# user: nobody
prepare() { initdb -D "$SHARED/data" -A trust -U postgres >/dev/null; }
run() { port=$(free_port); cp -r "$SHARED/data" "$WORK/data"; chmod 700 "$WORK/data"
    serve "$port" $RUN postgres -D "$WORK/data" -p "$port" -h 127.0.0.1 -k "$WORK" || return
    pgbench -q -i -h "$WORK" -p "$port" -U postgres postgres >/dev/null 2>&1 && psql -h "$WORK" -p "$port" -U postgres -tc 'select sum(abalance), count(*) from pgbench_accounts' postgres
    under_load pgbench -S -c 8 -j 2 -T 3 -h "$WORK" -p "$port" -U postgres postgres && figure rate "$(awk '/^tps/ { print $3 }' "$WORK/client")" && stop INT; }

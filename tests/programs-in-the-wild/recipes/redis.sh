# package: redis-server
# needs: redis-server redis-benchmark
# version: redis-server --version
# does: 2 io-threads; gets and sets, 50 connections
run() { port=$(free_port); serve "$port" $RUN redis-server --port "$port" --save '' --io-threads 2 --io-threads-do-reads yes --dir "$WORK" && under_load redis-benchmark -p "$port" -n 100000 -c 50 -t get --csv &&
    figure rate "$(tail -n 1 "$WORK/client" | cut -d'"' -f4)" && figure p99 "$(tail -n 1 "$WORK/client" | cut -d'"' -f14)" && redis-cli -p "$port" set a b && redis-cli -p "$port" get a && stop; }

# needs: unbound dnsperf
# version: unbound -V
# does: local data, 2 threads, dnsperf
run() { port=$(free_port); printf 'server:\n interface: 127.0.0.1@%s\n num-threads: 2\n do-daemonize: no\n use-syslog: no\n chroot: ""\n username: ""\n pidfile: "%s/pid"\n directory: "%s"\n local-data: "a.test. A 10.1.2.3"\nremote-control:\n control-enable: no\n' "$port" "$WORK" "$WORK" >"$WORK/conf"; echo 'a.test A' >"$WORK/queries"
    serve "$port" $RUN unbound -d -c "$WORK/conf" && under_load dnsperf -s 127.0.0.1 -p "$port" -d "$WORK/queries" -c 8 -l 2 && figure rate "$(awk '/Queries per second/ { print $4 }' "$WORK/client")" && grep -c NOERROR "$WORK/client" && stop; }

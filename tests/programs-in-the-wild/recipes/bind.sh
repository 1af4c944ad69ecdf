# package: bind9
# needs: named dnsperf
# version: named -v
# does: a zone of its own, dnsperf
run() { port=$(free_port); printf '$TTL 60\n@ SOA a. b. 1 1 1 1 1\n@ NS a.test.\na A 10.1.2.3\n' >"$WORK/zone"; printf 'options { directory "%s"; listen-on port %s { 127.0.0.1; }; listen-on-v6 { none; }; pid-file "%s/pid"; session-keyfile none; recursion no; dnssec-validation no; }; controls {}; zone "test" { type primary; file "%s/zone"; };' "$WORK" "$port" "$WORK" "$WORK" >"$WORK/conf"; echo 'a.test A' >"$WORK/queries"
    serve "$port" $RUN named -f -c "$WORK/conf" && under_load dnsperf -s 127.0.0.1 -p "$port" -d "$WORK/queries" -c 8 -l 2 && figure rate "$(awk '/Queries per second/ { print $4 }' "$WORK/client")" && grep -c NOERROR "$WORK/client" && stop; }

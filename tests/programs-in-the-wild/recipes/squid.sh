# needs: squid
# version: squid -v
# does: checks its configuration
run() { printf 'http_port 127.0.0.1:3128\npid_filename none\ncache_log /dev/null\naccess_log none\ncoredump_dir %s\n' "$WORK" >"$WORK/conf"; $RUN squid -k parse -f "$WORK/conf" 2>/dev/null; }

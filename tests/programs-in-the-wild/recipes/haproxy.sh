# needs: haproxy wrk
# version: haproxy -v
# does: 2 threads, answers itself, 50 connections
run() { port=$(free_port); printf 'global\n nbthread 2\n maxconn 1000\ndefaults\n mode http\n timeout client 5s\n timeout connect 5s\n timeout server 5s\nfrontend f\n bind 127.0.0.1:%s\n http-request return status 200 content-type text/plain string hello\n' "$port" >"$WORK/conf"
    serve "$port" $RUN haproxy -db -f "$WORK/conf" && body "$port" /x && web_load "http://127.0.0.1:$port/" && stop; }

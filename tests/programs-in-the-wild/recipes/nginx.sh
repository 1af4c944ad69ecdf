# package: nginx
# needs: nginx wrk
# version: nginx -v 2>&1
# does: 2 workers, thread pool, a file of 16 KB, 50 connections
run() { port=$(free_port); head -c 16384 /dev/zero | tr '\0' x >"$WORK/file"; chmod 755 "$WORK"
    printf 'daemon off; pid %s/pid; error_log %s/error; worker_processes 2; user nobody nogroup; events { worker_connections 512; } thread_pool default threads=8; http { access_log off; client_body_temp_path %s/b; proxy_temp_path %s/p; fastcgi_temp_path %s/f; uwsgi_temp_path %s/u; scgi_temp_path %s/s; aio threads; directio 4k; server { listen 127.0.0.1:%s; root %s; } }' "$WORK" "$WORK" "$WORK" "$WORK" "$WORK" "$WORK" "$WORK" "$port" "$WORK" >"$WORK/conf"
    serve "$port" $RUN nginx -c "$WORK/conf" && body "$port" /file | sha256sum && web_load "http://127.0.0.1:$port/file" && stop QUIT; }

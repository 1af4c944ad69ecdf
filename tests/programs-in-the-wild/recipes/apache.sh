# package: apache2
# needs: apache2 wrk
# version: apache2 -v
# does: event workers, a small file, 50 connections
run() { port=$(free_port); mkdir "$WORK/www"; echo hello >"$WORK/www/file"; chmod -R 755 "$WORK"
    m=/usr/lib/apache2/modules; printf 'ServerName x\nServerRoot %s\nPidFile %s/pid\nListen 127.0.0.1:%s\nLoadModule mpm_event_module %s/mod_mpm_event.so\nLoadModule authz_core_module %s/mod_authz_core.so\nDocumentRoot %s/www\nErrorLog %s/error\nStartServers 1\nThreadsPerChild 32\nMaxRequestWorkers 64\nServerLimit 2\nUser nobody\nGroup nogroup\nMaxKeepAliveRequests 0\n' "$WORK" "$WORK" "$port" "$m" "$m" "$WORK" "$WORK" >"$WORK/conf"
    serve "$port" $RUN apache2 -f "$WORK/conf" -D FOREGROUND && body "$port" /file && web_load "http://127.0.0.1:$port/file" && stop; }

# package: nodejs
# needs: node wrk
# version: node --version
# does: HTTP by a cluster of 2 processes, 50 connections
prepare() { cat >"$SHARED/a.js" <<'END'
const cluster = require('cluster'), http = require('http');
if (cluster.isPrimary) { cluster.fork(); cluster.fork(); process.on('SIGTERM', () => { for (const w of Object.values(cluster.workers)) w.kill('SIGKILL'); process.exit(0); }); }
else http.createServer((q, a) => a.end('hello ' + q.url)).listen(+process.argv[2], '127.0.0.1');
END
}
run() { port=$(free_port); serve "$port" $RUN "$(command -v node)" "$SHARED/a.js" "$port" && body "$port" /x && web_load "http://127.0.0.1:$port/" && stop; }

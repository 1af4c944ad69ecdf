# needs: /usr/bin/gunicorn wrk
# version: dpkg-query --show gunicorn
# does: WSGI with 8 threads, 50 connections
prepare() { printf 'def app(e, start):\n    start("200 OK", [("Content-Length", "5")])\n    return [b"hello"]\n' >"$SHARED/a.py"; }
run() { port=$(free_port); cd "$SHARED"; PYTHONDONTWRITEBYTECODE=1 serve "$port" $RUN /usr/bin/python3 "$(readlink -f /usr/bin/gunicorn)" --threads 8 --workers 1 -b "127.0.0.1:$port" a:app && body "$port" / && web_load "http://127.0.0.1:$port/" && stop; }

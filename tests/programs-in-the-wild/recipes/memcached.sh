# needs: memcached python3
# version: memcached --version
# does: 4 threads; sets and gets on 20 connections
run() { port=$(free_port); serve "$port" $RUN memcached -u nobody -t 4 -l 127.0.0.1 -p "$port" && under_load python3 -c '
import selectors, socket, sys, time
socks = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(20)]
for n, s in enumerate(socks): s.sendall(b"set k%d 0 0 5\r\nvalue\r\n" % n); assert s.recv(100) == b"STORED\r\n"
sel, done, end, waits = selectors.DefaultSelector(), 0, time.monotonic() + 2, []
sent = {}
for n, s in enumerate(socks): sel.register(s, selectors.EVENT_READ, b"get k%d\r\n" % n); s.sendall(b"get k%d\r\n" % n); sent[s] = time.monotonic()
while time.monotonic() < end:
    for key, _ in sel.select(1):
        assert key.fileobj.recv(200).endswith(b"value\r\nEND\r\n"); now = time.monotonic(); waits.append(now - sent[key.fileobj]); sent[key.fileobj] = now; key.fileobj.sendall(key.data); done += 1
print(done / 2, 1000 * sorted(waits)[len(waits) * 99 // 100])' "$port" && figure rate "$(cut -d' ' -f1 "$WORK/client")" && figure p99 "$(cut -d' ' -f2 "$WORK/client")" && stop; }

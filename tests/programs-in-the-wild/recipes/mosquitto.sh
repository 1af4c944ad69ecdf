# needs: mosquitto
# version: mosquitto -h
# does: accepts 2,000 clients one after the other
run() { port=$(free_port); printf 'listener %s 127.0.0.1\nallow_anonymous true\n' "$port" >"$WORK/conf"; serve "$port" $RUN mosquitto -c "$WORK/conf" && python3 -c '
import socket, sys
for n in range(2000):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); s.sendall(b"\x10\x0e\x00\x04MQTT\x04\x02\x00\x3c\x00\x02" + b"%02d" % (n % 100)); assert s.recv(4) == b"\x20\x02\x00\x00"; s.sendall(b"\xe0\x00"); s.close()
print("2000 accepted")' "$port" && stop; }

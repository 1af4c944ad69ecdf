# version: openssl version
# does: starts 60 times, to sign each time
run() { openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$WORK/key" 2>/dev/null; for n in $(seq 60); do echo "$n" | $RUN openssl dgst -sha256 -sign "$WORK/key" | wc -c; done; }

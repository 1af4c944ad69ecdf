# version: openssl version
# does: signs 400 times, generates keys in 4 processes
run() { openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$WORK/key" 2>/dev/null; for n in $(seq 60); do echo "$n" | $RUN openssl dgst -sha256 -sign "$WORK/key" | wc -c; done; }

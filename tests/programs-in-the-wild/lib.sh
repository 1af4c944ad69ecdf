# What recipes share. Sourced by run.

# figure NAME VALUE: a rate in operations a second, a p99 in milliseconds, seconds of CPU time, host threads.
figure() { echo "$1 $2" >>"$WORK/figures"; }

# since MOMENT: seconds since that value of EPOCHREALTIME.
since() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.6f", to - from }'; }

# text SIZE: so many bytes of text that can be compressed, always the same.
text() { awk 'BEGIN { x = 42; for (;;) { x = (x * 16807) % 2147483647; printf "%d line %s\n", x % 10000, substr("the quick brown fox jumps over the lazy dog", 1 + x % 20, 5 + x % 17) } }' | head -c "$1"; }

# free_port: a number for a server.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# serve PORT COMMAND…: starts the server that is judged, in a session of its own, and waits until it accepts.
serve() {
    local port=$1
    shift
    setsid "$@" >"$WORK/server.log" 2>&1 &
    server=$!
    local tries=0
    until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
        kill -0 "$server" 2>/dev/null || { echo "the server ended:" >&2; tail -n 5 "$WORK/server.log" >&2; return 1; }
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { echo "the server does not accept" >&2; tail -n 5 "$WORK/server.log" >&2; return 1; }
        sleep 0.05
    done
}

# of_server FIELD: the sum of that field of /proc/PID/stat (14 user time, 20 threads, …) over the server's session.
of_server() {
    cat /proc/[0-9]*/stat 2>/dev/null | sed 's/(.*)/x/' | awk -v session="$server" -v field="$1" '$6 == session { sum += $field } END { print sum + 0 }'
}

# under_load COMMAND…: runs the client and tells the CPU time that the server consumed meanwhile, and its host threads.
under_load() {
    local user system status
    user=$(of_server 14) system=$(of_server 15)
    "$@" >"$WORK/client" 2>&1
    status=$?
    figure threads "$(of_server 20)"
    figure cpu "$(awk -v from="$((user + system))" -v to="$(($(of_server 14) + $(of_server 15)))" -v hz="$(getconf CLK_TCK)" 'BEGIN { printf "%.3f", (to - from) / hz }')"
    [ "$status" = 0 ] || { echo "the client ended with $status:" >&2; tail -n 5 "$WORK/client" >&2; }
    return "$status"
}

# stop [SIGNAL]: ends the server and tells how it ended.
stop() {
    kill -"${1:-TERM}" "$server"
    wait "$server"
    echo "the server ended with $?"
}

# sweep_up: no process of the run is left.
sweep_up() { [ -z "${server:-}" ] || pkill -KILL -s "$server" 2>/dev/null; server=; }

# web_load URL: wrk with 50 connections for two seconds; its rate and p99.
web_load() {
    under_load wrk -t 1 -c 50 -d 2s --latency "$1" || return
    # Reads may end because the server closes a connection that was kept alive: their number is a matter of timing.
    grep 'Non-2xx' "$WORK/client"
    awk '/Socket errors/ && !/connect 0,.*write 0, timeout 0/' "$WORK/client"
    figure rate "$(awk '/Requests\/sec/ { print $2 }' "$WORK/client")"
    figure p99 "$(awk '$1 == "99%" { value = $2 + 0; if ($2 ~ /us$/) value /= 1000; else if ($2 !~ /ms$/) value *= 1000; print value }' "$WORK/client")"
}

# body PORT PATH: what a web server answers.
body() {
    python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen("http://127.0.0.1:%s%s" % tuple(sys.argv[1:])).read().decode())' "$1" "$2"
}

# allocating_program FLAG…: $SHARED/allocate, whose threads free what the others have allocated.
allocating_program() {
    cat >"$SHARED/allocate.c" <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { THREADS = 8, SLOTS = 512 };
static pthread_mutex_t lock[SLOTS];
static char *slot[SLOTS];
static int turns = 400000;
static void *work(void *arg)
{
    unsigned long seed = (unsigned long)arg * 7919 + 1, freed = 0;
    for (int i = 0; i < turns / THREADS; i++) {
        seed = seed * 6364136223846793005ul + 1442695040888963407ul;
        unsigned at = seed >> 33 & (SLOTS - 1), size = 16 + (seed >> 43) % 2000;
        char *new = malloc(size);
        memset(new, 'x', size);
        pthread_mutex_lock(&lock[at]);
        char *old = slot[at];
        slot[at] = new;
        pthread_mutex_unlock(&lock[at]);
        freed += old != NULL;
        free(old);
    }
    return (void *)freed;
}
int main(int argc, char **argv)
{
    if (argc > 1)
        turns = atoi(argv[1]);
    pthread_t threads[THREADS];
    unsigned long freed = 0, left = 0;
    for (int i = 0; i < SLOTS; i++)
        pthread_mutex_init(&lock[i], NULL);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        freed += (unsigned long)result;
    }
    for (int i = 0; i < SLOTS; i++) {
        left += slot[i] != NULL;
        free(slot[i]);
    }
    printf("%lu allocated and freed\n", freed + left);
}
END
    cc -O1 -pthread "$@" "$SHARED/allocate.c" -o "$SHARED/allocate"
}

# package: golang-go
# needs: go wrk
# version: go version
# does: net/http with a goroutine for each of 50 connections
prepare() { cat >"$SHARED/main.go" <<'END'
package main
import ("fmt"; "log"; "net/http"; "os"; "os/signal"; "syscall")
func main() {
  http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s", r.URL.Path) })
  server := &http.Server{Addr: "127.0.0.1:" + os.Args[1]}
  done := make(chan os.Signal, 1)
  signal.Notify(done, syscall.SIGTERM)
  go func() { <-done; server.Close() }()
  if err := server.ListenAndServe(); err != http.ErrServerClosed { log.Fatal(err) }
}
END
printf 'module program\ngo 1.19\n' >"$SHARED/go.mod"
(cd "$SHARED" && GOTOOLCHAIN=local GOFLAGS= GOCACHE="$SHARED/cache" CGO_ENABLED=0 go build -o server .); }
run() { port=$(free_port); serve "$port" $RUN "$SHARED/server" "$port" && body "$port" /x && web_load "http://127.0.0.1:$port/" && stop; }

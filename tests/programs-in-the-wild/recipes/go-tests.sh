# package: golang-go
# needs: go
# version: go version
# does: Go's own tests of sync, sync/atomic, context, time, os/signal and net/http
# seconds: 300
tested="sync sync/atomic context time os/signal net/http"
prepare() { for package in $tested; do
    GOTOOLCHAIN=local GOFLAGS= GOCACHE="$SHARED/cache" go test -c -o "$SHARED/$(basename "$package").test" "$package" || return
done; }
# Subtests may be named after ports, and the order of parallel ones is a matter of timing.
run() { for package in $tested; do
    (cd "$(go env GOROOT)/src/$package" && $RUN "$SHARED/$(basename "$package").test" -test.v -test.short) >"$WORK/said" 2>"$WORK/errors"
    echo "$package: status $?"
    sed -n 's/^--- \(PASS\|FAIL\|SKIP\): \([^ ]*\).*/\1 \2/p' "$WORK/said" | sort
done; }

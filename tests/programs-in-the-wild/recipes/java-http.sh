# package: openjdk-17-jdk-headless
# needs: java wrk
# version: java -version 2>&1
# does: HTTP server with a pool of 64 threads, 50 connections
prepare() { cat >"$SHARED/A.java" <<'END'
import com.sun.net.httpserver.*; import java.net.*; import java.util.concurrent.*;
public class A { public static void main(String[] a) throws Exception { var s = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(a[0])), 0);
  s.setExecutor(Executors.newFixedThreadPool(64)); s.createContext("/", e -> { byte[] b = ("hello " + e.getRequestURI()).getBytes(); e.sendResponseHeaders(200, b.length); e.getResponseBody().write(b); e.close(); }); s.start(); } }
END
javac -d "$SHARED" "$SHARED/A.java"; }
run() { port=$(free_port); serve "$port" $RUN "$(readlink -f "$(command -v java)")" -cp "$SHARED" A "$port" && body "$port" /x && web_load "http://127.0.0.1:$port/" && stop; }

# package: openjdk-17-jdk-headless
# needs: java javac
# version: java -version 2>&1
# does: 2,000 platform threads, locks, a fork-join pool
prepare() { cat >"$SHARED/B.java" <<'END'
import java.util.*; import java.util.concurrent.*; import java.util.concurrent.atomic.*; import java.util.stream.*;
public class B { static long n; public static void main(String[] a) throws Exception { var all = new ArrayList<Thread>(); var latch = new CountDownLatch(2000); var lock = new Object(); var sum = new AtomicLong();
  for (int i = 0; i < 2000; i++) { int k = i; var t = new Thread(() -> { latch.countDown(); try { latch.await(); } catch (InterruptedException e) {} for (int j = 0; j < 200; j++) { synchronized (lock) { n += j; } sum.addAndGet(k); } }); t.start(); all.add(t); }
  for (var t : all) t.join(); System.out.println(n + " " + sum + " " + LongStream.range(0, 5000000).parallel().map(x -> x * x % 1009).sum()); } }
END
javac -d "$SHARED" "$SHARED/B.java"; }
run() { $RUN "$(readlink -f "$(command -v java)")" -Xss256k -cp "$SHARED" B; }

# package: mono-runtime mono-mcs
# needs: mono mcs
# version: mono --version
# does: a thread pool, tasks and monitors
prepare() { cat >"$SHARED/a.cs" <<'END'
using System; using System.Threading; class A { static long n; static object o = new object(); static void Main() { var ts = new Thread[16]; for (int i = 0; i < 16; i++) { int k = i; ts[i] = new Thread(() => { for (int j = 0; j < 20000; j++) lock (o) n += j * k % 7; }); ts[i].Start(); } foreach (var t in ts) t.Join();
 var e = new CountdownEvent(500); long s = 0; for (int i = 0; i < 500; i++) ThreadPool.QueueUserWorkItem(x => { Interlocked.Add(ref s, (int)x * 3); e.Signal(); }, i); e.Wait(); Console.WriteLine(n + " " + s); } }
END
mcs "$SHARED/a.cs" -out:"$SHARED/a.exe"; }
run() { $RUN mono "$SHARED/a.exe"; }

# package: python3
# needs: python3
# version: python3 --version
# does: 8 threads, queues, locks and a pool of processes
run() { $RUN python3 -c '
import hashlib, queue, threading, concurrent.futures as f, multiprocessing as m
q, out, lock = queue.Queue(64), [], threading.Lock()
def worker():
    while (n := q.get()) is not None:
        d = hashlib.sha256(b"%d" % n * 2000).hexdigest()
        with lock: out.append(d)
threads = [threading.Thread(target=worker) for _ in range(8)]
[t.start() for t in threads]; [q.put(n) for n in range(20000)]; [q.put(None) for _ in threads]; [t.join() for t in threads]
print(hashlib.sha256("".join(sorted(out)).encode()).hexdigest())
with m.get_context("fork").Pool(4) as p: print(sum(p.map(abs, range(-50000, 0), 500)))
with f.ThreadPoolExecutor(16) as p: print(sum(p.map(lambda n: n * n, range(20000))))'; }

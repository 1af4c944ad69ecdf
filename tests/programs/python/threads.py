"""200 threads that compute and talk to each other, pools of threads and of processes, commands."""

import concurrent.futures
import hashlib
import queue
import subprocess
import sys
import threading
import time


def digest(seed, rounds=60):
    value = str(seed).encode()
    for _ in range(rounds):
        value = hashlib.sha256(value * 40).digest()
    return value


def computing_threads():
    results = [b""] * 200

    def work(index):
        results[index] = digest(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("threads", hashlib.sha256(b"".join(results)).hexdigest())


def queues():
    todo, done = queue.Queue(maxsize=5), queue.Queue()

    def work():
        while (number := todo.get()) is not None:
            done.put(number * number)

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for number in range(1000):
        todo.put(number)
    for _ in threads:
        todo.put(None)
    for thread in threads:
        thread.join()
    print("queue", sum(done.get() for _ in range(1000)))


def waits():
    event, condition, barrier = threading.Event(), threading.Condition(), threading.Barrier(8)
    order = []
    print("event", event.wait(0.02))

    def meet(index):
        barrier.wait()
        with condition:
            condition.wait_for(lambda: len(order) == index)
            order.append(index)
            condition.notify_all()
        event.wait()

    threads = [threading.Thread(target=meet, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    with condition:
        condition.wait_for(lambda: len(order) == 8)
    event.set()
    for thread in threads:
        thread.join()
    print("order", order)
    ticks = []
    timer = threading.Timer(0.02, ticks.append, (1,))
    before = time.monotonic()
    timer.start()
    timer.join()
    print("timer", ticks, time.monotonic() - before >= 0.02)


def pools():
    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        parts = list(pool.map(digest, range(100)))
    print("thread pool", hashlib.sha256(b"".join(parts)).hexdigest())
    with concurrent.futures.ProcessPoolExecutor(max_workers=3) as pool:
        parts = list(pool.map(digest, range(20)))
    print("process pool", hashlib.sha256(b"".join(parts)).hexdigest())


def commands():
    def run(number):
        return subprocess.run(["sh", "-c", f"echo {number}; exit {number % 3}"], capture_output=True, text=True)

    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        ends = list(pool.map(run, range(12)))
    print("commands", [(end.stdout.strip(), end.returncode) for end in ends])
    pipe = subprocess.Popen(["sort", "-r"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print("pipe", pipe.communicate("a\nc\nb\n")[0].split())
    try:
        subprocess.run(["sleep", "20"], timeout=0.05)
    except subprocess.TimeoutExpired:
        print("timeout expired")
    print("missing", end=" ")
    try:
        subprocess.run(["/nowhere/at-all"])
    except FileNotFoundError:
        print("file")


def main():
    computing_threads()
    queues()
    waits()
    pools()
    commands()
    sys.stdout.flush()
    return 5


if __name__ == "__main__":
    sys.exit(main())

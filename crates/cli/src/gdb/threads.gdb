# Commands of gdb for a program that runs under Entresol: `entresol threads`, `entresol bt TID`,
# `entresol thread TID`. Written by `entresol gdb --print-script`. The process is only read.
handle SIGSYS SIG32 SIG33 nostop noprint pass
python
import struct
import gdb
import gdb.unwinder


class Missing(gdb.GdbError):
    pass


def read(address, length):
    return bytes(gdb.selected_inferior().read_memory(address, length))


def word(address):
    return struct.unpack("<Q", read(address, 8))[0]


def half(address):
    return struct.unpack("<I", read(address, 4))[0]


class Table:
    """What the image says of where things lie: crates/host/src/debugger.rs."""

    MAGIC = b"entresoldebugger"
    WORDS = 18
    # What the process says may be made up: no more threads and objects with patched sites than there can be.
    THREADS_MAX = 1 << 20
    OBJECTS_MAX = 1 << 16

    def __init__(self):
        words = struct.unpack("<%dQ" % self.WORDS, read(self.find(), 8 * self.WORDS))
        if words[2] != 1:
            raise Missing("this process runs under another version of Entresol")
        (self.contexts, self.chunk, self.context_size, self.r, self.rip, self.claim) = words[3:9]
        (self.threads, self.thread_chunk, self.thread_size, self.tid, self.name, self.wait) = words[9:15]
        if not 0 < self.thread_chunk <= self.THREADS_MAX:
            raise Missing("the image's table of threads is damaged")
        self.sites = list(self.objects(word(words[15])))
        self.entries = words[16:18]

    def objects(self, node):
        """Each object with patched sites: its text, its stubs, its places and their number."""
        for _ in range(self.OBJECTS_MAX):
            if node == 0:
                return
            *object, node = struct.unpack("<5Q", read(node, 40))
            yield object
        raise Missing("the image's table of patched sites is damaged")

    def find(self):
        inferior = gdb.selected_inferior()
        for line in gdb.execute("info proc mappings", to_string=True).splitlines():
            fields = line.split()
            if len(fields) < 5 or not fields[0].startswith("0x") or "libentresol" not in fields[-1]:
                continue
            if len(fields) > 5 and "w" not in fields[4]:
                continue
            at = inferior.search_memory(int(fields[0], 16), int(fields[2], 16), self.MAGIC)
            if at is not None:
                return at
        raise Missing("no image of Entresol is in this process")

    def all(self):
        """Each thread that lives: its context and what is known of it."""
        for chunk in range(self.THREADS_MAX // self.thread_chunk):
            threads = word(self.threads + 8 * chunk)
            contexts = word(self.contexts + 8 * chunk)
            if threads == 0 or contexts == 0:
                return
            for i in range(self.thread_chunk):
                thread = threads + i * self.thread_size
                tid = half(thread + self.tid)
                if tid:
                    yield Thread(self, tid, thread, contexts + i * self.context_size)

    def one(self, tid):
        for thread in self.all():
            if thread.tid == tid:
                return thread
        raise Missing("there is no thread %d" % tid)

    def seen(self, rip, rcx):
        """The program's own place: patched calls stand in stubs."""
        if rip in self.entries:
            rip = rcx
        for text, stubs, places, count in self.sites:
            if stubs <= rip < stubs + (1 << 24):
                found = self.in_stub(text, rip - stubs, places, count)
                if found:
                    return found
        return rip

    def in_stub(self, text, offset, places, count):
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if half(places + 12 * middle + 4) <= offset:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return None
        syscall, stub, before, after, call, length = struct.unpack("<IIBBBB", read(places + 12 * (low - 1), 12))
        inside = offset - stub
        if inside < call:
            return text + syscall - before + inside if call == before else None
        if inside < length:
            return text + syscall
        return text + syscall + 2 if inside == length and after else None


class Thread:
    WAITS = ["-", "futex", "futexes", "pi-mutex", "pi-mutex", "sleep", "host call", "sigwait", "sigsuspend", "work",
             "cpu time", "its share", "terminal"]
    # Where arch/src/context.rs keeps them.
    REGISTERS = {"rax": 0, "rdi": 1, "rsi": 2, "rdx": 3, "r10": 4, "r8": 5, "r9": 6, "rsp": 7, "rbx": 8, "rcx": 9,
                 "rbp": 10, "r11": 11, "r12": 12, "r13": 13, "r14": 14, "r15": 15}

    def __init__(self, table, tid, thread, context):
        self.tid = tid
        self.name = read(thread + table.name, 16).split(b"\0")[0].decode(errors="replace")
        kind = half(thread + table.wait)
        self.waits = self.WAITS[kind] if kind < len(self.WAITS) else "?"
        claim = half(context + table.claim)
        self.carrier = claim - 1 if claim else None
        values = struct.unpack("<16Q", read(context + table.r, 128))
        self.registers = {name: values[i] for name, i in self.REGISTERS.items()}
        self.registers["rip"] = table.seen(word(context + table.rip), self.registers["rcx"])

    def place(self):
        if self.carrier is not None:
            return "on carrier %d: see `info threads`" % self.carrier
        found = gdb.execute("info symbol %d" % self.registers["rip"], to_string=True).strip()
        return "0x%x" % self.registers["rip"] if found.startswith("No symbol") else found.split(" in section")[0]


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class Parked(gdb.unwinder.Unwinder):
    """While a thread is looked at, the frame below the host thread's innermost one is that thread's."""

    def __init__(self):
        super().__init__("entresol")
        self.thread = None
        self.below = None

    def look_at(self, thread):
        self.thread = None
        gdb.invalidate_cached_frames()
        if thread is not None:
            frame = gdb.newest_frame()
            self.below = (int(frame.read_register("rsp")), int(frame.read_register("rip")))
            self.thread = thread
            gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.thread is None:
            return None
        sp, pc = pending.read_register("rsp"), pending.read_register("rip")
        if (int(sp) & MASK, int(pc) & MASK) != tuple(x & MASK for x in self.below):
            return None
        kind = gdb.lookup_type("unsigned long")
        # Callers lie above: gdb would take another order of the two stacks for damage.
        above = gdb.Value(self.thread.registers["rsp"] - 128).cast(kind)
        info = pending.create_unwind_info(FrameId(above, pc))
        for name in ["rsp", "rip", "rbx", "rbp", "r12", "r13", "r14", "r15"]:
            info.add_saved_register(name, gdb.Value(self.thread.registers[name]).cast(kind))
        return info


MASK = (1 << 64) - 1
parked = Parked()
gdb.unwinder.register_unwinder(None, parked, replace=True)
gdb.events.cont.connect(lambda event: parked.look_at(None) if parked.thread else None)


def waiting(text):
    thread = Table().one(int(text))
    if thread.carrier is not None:
        raise Missing("thread %d is %s" % (thread.tid, thread.place()))
    return thread


def backtrace(thread, arguments=""):
    print("Thread %d \"%s\", waits for: %s" % (thread.tid, thread.name, thread.waits))
    if thread.carrier is not None:
        print("  " + thread.place())
        return
    before = parked.thread
    parked.look_at(thread)
    try:
        # The first is the host thread's, which says nothing here.
        lines = gdb.execute("bt " + arguments, to_string=True).splitlines()
        print("\n".join(lines[1:]))
    finally:
        parked.look_at(before)


class Entresol(gdb.Command):
    """Threads of a program under Entresol: entresol threads | bt TID|all | thread TID|off"""

    def __init__(self):
        super().__init__("entresol", gdb.COMMAND_STACK, prefix=True)


class Threads(gdb.Command):
    """All threads of the program, what they wait for and where they are."""

    def __init__(self):
        super().__init__("entresol threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        print("%10s  %-15s  %-10s  %s" % ("TID", "NAME", "WAITS FOR", "WHERE"))
        for thread in Table().all():
            print("%10d  %-15s  %-10s  %s" % (thread.tid, thread.name, thread.waits, thread.place()))


class Backtrace(gdb.Command):
    """The backtrace of a thread: entresol bt TID [arguments of bt], or of all: entresol bt all"""

    def __init__(self):
        super().__init__("entresol bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        which, _, rest = argument.strip().partition(" ")
        if which == "all":
            for thread in list(Table().all()):
                backtrace(thread, rest)
        elif which.isdigit():
            backtrace(Table().one(int(which)), rest)
        else:
            raise Missing("entresol bt TID, or entresol bt all")


class Look(gdb.Command):
    """Look at a thread that has no CPU, until `entresol thread off`: bt, up, frame, info locals, print."""

    def __init__(self):
        super().__init__("entresol thread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        which = argument.strip()
        if which == "off":
            parked.look_at(None)
        elif which.isdigit():
            parked.look_at(waiting(which))
            gdb.execute("frame 1")
        else:
            raise Missing("entresol thread TID, or entresol thread off")


Entresol()
Threads()
Backtrace()
Look()
end

// Does one thing, by its first argument, and says what it found.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The process's id by the C library, if there is one.
var pidOfC func() int

func main() {
	maps, _ := os.ReadFile("/proc/self/maps")
	fmt.Printf("under=%v\n", bytes.Contains(maps, []byte("/libentresol-")))
	parts := map[string]func(){
		"threads": threads, "preempt": preempt, "signals": signals, "timers": timers, "children": children,
		"profile": profile, "faults": faults, "network": network, "calls": calls, "child": func() {},
	}
	parts[os.Args[1]]()
	fmt.Println("done")
}

// Goroutines that are locked to threads, each with an id of its own, and one counter.
func threads() {
	var counter, ids sync.Map
	var sum atomic.Int64
	var all sync.WaitGroup
	for i := 0; i < 32; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			runtime.LockOSThread()
			ids.Store(syscall.Gettid(), i)
			for j := 0; j < 1000; j++ {
				counter.Store(i, j)
				sum.Add(1)
				if j%100 == 0 {
					time.Sleep(10 * time.Microsecond)
				}
			}
			runtime.GC()
		}(i)
	}
	all.Wait()
	fmt.Println("sum", sum.Load(), "same process", pidOfC == nil || pidOfC() == os.Getpid())
}

// Loops without a call are interrupted by SIGURG.
func preempt() {
	runtime.GOMAXPROCS(2)
	for i := 0; i < 4; i++ {
		go func() {
			for n := uint64(1); ; n = n*6364136223846793005 + 1 {
			}
		}()
	}
	for i := 0; i < 5; i++ {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}

func signals() {
	got := make(chan os.Signal, 16)
	signal.Notify(got, syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGUSR2)
	for _, which := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM, syscall.SIGHUP} {
		syscall.Kill(os.Getpid(), which)
		if which != syscall.SIGUSR2 {
			fmt.Println(<-got)
		}
	}
}

func timers() {
	start, ticks := time.Now(), 0
	ticker := time.NewTicker(2 * time.Millisecond)
	for range 10 {
		<-ticker.C
		ticks++
	}
	passed := time.Since(start)
	fmt.Println("ticks", ticks, passed >= 20*time.Millisecond)
	select {
	case <-time.After(5 * time.Millisecond):
		fmt.Println("after")
	case <-make(chan int):
	}
}

func children() {
	for _, program := range [][]string{{"/bin/echo", "a word"}, {"/bin/sh", "-c", "exit 3"}, {os.Args[0], "child"}} {
		out, err := exec.Command(program[0], program[1:]...).Output()
		fmt.Printf("%s %v\n", out, err)
	}
	cat := exec.Command("cat")
	cat.Stdin = strings.NewReader("through a pipe")
	out, err := cat.Output()
	fmt.Printf("%s %v\n", out, err)
	slow := exec.Command("sleep", "60")
	slow.Start()
	slow.Process.Kill()
	fmt.Println(slow.Wait())
}

// A CPU profile comes from timers with SIGPROF for each thread.
func profile() {
	var out bytes.Buffer
	fmt.Println(pprof.StartCPUProfile(&out))
	for start := time.Now(); time.Since(start) < 200*time.Millisecond; {
	}
	pprof.StopCPUProfile()
	fmt.Println("profile", out.Len() > 500)
}

// Faults become panics, on a goroutine's small stack.
func faults() {
	debug.SetPanicOnFault(true)
	for i := 0; i < 3; i++ {
		func() {
			defer func() { fmt.Println(recover()) }()
			var nowhere *int
			*nowhere = i
		}()
	}
}

func network() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		for {
			peer, err := listener.Accept()
			if err != nil {
				return
			}
			go io.Copy(peer, peer)
		}
	}()
	var all sync.WaitGroup
	var bytes atomic.Int64
	for range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			peer, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				fmt.Println(err)
				return
			}
			defer peer.Close()
			word := make([]byte, 100)
			for range 50 {
				peer.Write(word)
				n, _ := io.ReadFull(peer, word)
				bytes.Add(int64(n))
			}
		}()
	}
	all.Wait()
	fmt.Println("bytes", bytes.Load())
	idle, _ := net.Dial("tcp", listener.Addr().String())
	idle.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, err = idle.Read(make([]byte, 1))
	fmt.Println("timed out", os.IsTimeout(err))
}

func calls() {
	for range 20000 {
		syscall.Getppid()
	}
}

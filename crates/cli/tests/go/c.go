//go:build cgo

package main

// #include <unistd.h>
import "C"

func init() {
	pidOfC = func() int { return int(C.getpid()) }
}

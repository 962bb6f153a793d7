//go:build unix

package main

import "syscall"

// clock is the processor time that the program has used, in seconds: unlike the time
// on the wall it does not depend on what else the machine does.
func clock() float64 {
	var r syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)*1e-6 }
	return seconds(r.Utime) + seconds(r.Stime)
}

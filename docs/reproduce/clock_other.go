//go:build !unix

package main

import "time"

var began = time.Now()

// clock is the time on the wall in seconds.
func clock() float64 { return time.Since(began).Seconds() }

//go:build !unix

package main

import "time"

// processorTime is not available here.
func processorTime() time.Duration { return 0 }

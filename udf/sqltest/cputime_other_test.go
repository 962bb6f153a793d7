//go:build !unix

package sqltest

import "time"

func cpuTime() time.Duration { return 0 }

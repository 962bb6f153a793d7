package memory

import (
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// rlimAS and rlimData are RLIMIT_AS and RLIMIT_DATA of Linux.
const (
	rlimData = 2
	rlimAS   = 9
)

// physical is the machine's memory in bytes.
func physical() int64 {
	var i syscall.Sysinfo_t
	if syscall.Sysinfo(&i) != nil {
		return 0
	}
	return int64(uint64(i.Totalram) * uint64(max(i.Unit, 1)))
}

// limits are the memory limits of the process and of its cgroups, v1 and v2.
func limits() (out []int64) {
	for _, what := range []int{rlimData, rlimAS} {
		var r syscall.Rlimit
		if syscall.Getrlimit(what, &r) == nil && r.Cur < 1<<60 {
			out = append(out, int64(r.Cur))
		}
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return out
	}
	return append(out, cgroups("/sys/fs/cgroup", string(text))...)
}

// cgroups are the memory limits of the groups named in /proc/self/cgroup, whose text is given, and
// of their parents.
func cgroups(root, text string) (out []int64) {
	for line := range strings.Lines(text) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		base, file := root, "memory.max"
		switch {
		case part[1] == "" && part[0] == "0":
		case hasWord(part[1], "memory"):
			base, file = path.Join(root, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the group's own path may not be visible; its root is.
		for dir := path.Clean("/" + part[2]); ; dir = path.Dir(dir) {
			if b, err := os.ReadFile(path.Join(base, dir, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && n < 1<<60 {
					out = append(out, n)
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	return out
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

package memory

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCgroups(t *testing.T) {
	root := t.TempDir()
	put := func(file, text string) {
		file = filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("a/memory.max", "max\n")
	put("a/b/memory.max", "5000\n")
	put("memory/x/memory.limit_in_bytes", "7000\n")
	put("memory/memory.limit_in_bytes", "9223372036854771712\n")
	if got := cgroups(root, "0::/a/b/c\n"); !slices.Equal(got, []int64{5000}) {
		t.Errorf("v2: %v", got)
	}
	if got := cgroups(root, "12:cpu:/x\n5:memory,other:/x/y\n"); !slices.Equal(got, []int64{7000}) {
		t.Errorf("v1: %v", got)
	}
	if got := cgroups(root, "nonsense\n0::/../../a/b\n"); !slices.Equal(got, []int64{5000}) {
		t.Errorf("outside: %v", got)
	}
}

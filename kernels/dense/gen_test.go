package dense

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The committed assembly is what the generator makes; the first line, which names the
// command, aside.
func TestGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the generator")
	}
	command := func(args ...string) *exec.Cmd {
		c := exec.Command("go", args...)
		c.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=")
		return c
	}
	if out, err := command("mod", "download", "-C", "gen").CombinedOutput(); err != nil {
		t.Skipf("no assembler: %v: %s", err, out)
	}
	dir := t.TempDir()
	names := [2]string{"kernels_amd64.s", "kernels_amd64.go"}
	c := command("run", "-C", "gen", "main.go", "-out", filepath.Join(dir, names[0]), "-go", filepath.Join(dir, names[1]), "-pkg", "dense")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range names {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ = bytes.Cut(got, []byte("\n"))
		_, want, _ = bytes.Cut(want, []byte("\n"))
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the generator makes: run go generate", name)
		}
	}
}

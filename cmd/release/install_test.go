package main

import (
	"archive/zip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var install = flag.Bool("install", false, "also install the tool as go install does from a tag (compiles and links all: a minute)")

// TestGoInstall: `go install github.com/bglm/bglm/cmd/bglm@latest` builds a tool that runs, from a
// module proxy that holds the committed files under a tag.
func TestGoInstall(t *testing.T) {
	if !*install {
		t.Skip("run with -install")
	}
	const module = "github.com/bglm/bglm"
	version := fmt.Sprintf("v0.999.%d", time.Now().Unix())
	dir := t.TempDir()
	at := filepath.Join(dir, "proxy", module, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	writeModule(t, filepath.Join(at, version+".zip"), module+"@"+version+"/")

	cmd := exec.CommandContext(t.Context(), "go", "install", module+"/cmd/bglm@latest")
	cmd.Dir = dir
	cache := goEnv(t, "GOMODCACHE")
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOPROXY=file://"+filepath.Join(dir, "proxy")+","+goEnv(t, "GOPROXY"), "GONOSUMDB="+module, "GOFLAGS=-modcacherw")
	t.Cleanup(func() { // no other program has use for them
		os.RemoveAll(filepath.Join(cache, module+"@"+version))
		os.RemoveAll(filepath.Join(cache, "cache/download", module))
	})
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "bglm"), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "module "+version) {
		t.Errorf("bglm version: %v\n%s", err, out)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// writeModule packs the committed files, without those of modules below.
func writeModule(t *testing.T, to, prefix string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = "../.."
	text, err := list.Output()
	if err != nil {
		t.Skipf("no git repository: %v", err)
	}
	files := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	var below []string
	for _, f := range files {
		if path.Base(f) == "go.mod" && path.Dir(f) != "." {
			below = append(below, path.Dir(f)+"/")
		}
	}
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
next:
	for _, name := range files {
		for _, b := range below {
			if strings.HasPrefix(name, b) {
				continue next
			}
		}
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		w, err := z.Create(prefix + name)
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

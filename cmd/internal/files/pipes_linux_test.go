package files

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe is neither waited for nor replaced by a file.
func TestPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.csv")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	checked := make(chan error, 1)
	go func() { checked <- Check(path, "csv") }()
	select {
	case err := <-checked:
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "a pipe") {
			t.Errorf("error %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("waits for the other end of the pipe")
	}
	err := Create(path, nil, func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err })
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("written: %v", err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is gone (%v)", err)
	}
}

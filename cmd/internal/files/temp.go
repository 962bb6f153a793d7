package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bglm/bglm/cmd/internal/shell"
)

// A file that is not complete yet is written under the name
//
//	.NAME.HOST-PID-RANDOM.bglm-tmp
//
// beside NAME, so that the last step is a rename within one folder. No glob over data (*.parquet,
// .*.csv) matches it, since no data have the extension, and Expand leaves it out of wider ones. A
// process that is killed leaves the file behind; from HOST and PID the next run with the same
// target knows whether the owner still runs.
const tempExt = ".bglm-tmp"

// tempHost identifies the machine since its start, and the name space of the process number: only
// if it agrees does a process number tell who is alive. Folders are shared between machines and
// containers, where the same number is another process.
var tempHost = sync.OnceValue(func() string {
	h := sha256.New()
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, _ := os.Readlink("/proc/self/ns/pid")
	fmt.Fprintf(h, "%s\n%s\n%s", name, boot, space)
	return hex.EncodeToString(h.Sum(nil)[:4])
})

// tempPrefix is the prefix of the temporary names of a target: most of its name, since file systems
// allow 255 bytes.
func tempPrefix(name string) string {
	const most = 180
	if len(name) > most {
		h := sha256.Sum256([]byte(name))
		name = name[:most] + "~" + hex.EncodeToString(h[:4])
	}
	return "." + name + "."
}

// tempPattern is for os.CreateTemp and os.MkdirTemp.
func tempPattern(name string) string {
	return fmt.Sprintf("%s%s-%d-*%s", tempPrefix(name), tempHost(), os.Getpid(), tempExt)
}

// IsTemp reports whether a path is one that bglm writes to temporarily, or its database log.
func IsTemp(path string) bool {
	base := filepath.Base(path)
	return strings.HasPrefix(base, ".") && (strings.HasSuffix(base, tempExt) || strings.HasSuffix(base, tempExt+".wal"))
}

// sweep removes what killed runs left of target, and reports on w what it cannot decide about:
// files of other machines, or from before the last start, untouched for a day.
func sweep(target string, w io.Writer) {
	dir, name := filepath.Split(target)
	if dir == "" {
		dir = "."
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		mark, ours := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".wal"), tempPrefix(name))
		mark, whole := strings.CutSuffix(mark, tempExt)
		parts := strings.Split(mark, "-")
		if !ours || !whole || len(parts) != 3 {
			continue
		}
		path := filepath.Join(dir, e.Name())
		pid, err := strconv.Atoi(parts[1])
		switch {
		case err != nil || pid <= 0:
		case parts[0] == tempHost():
			if !alive(pid) {
				_ = os.RemoveAll(path)
			}
		case w != nil:
			if st, err := e.Info(); err == nil && time.Since(st.ModTime()) > 24*time.Hour {
				fmt.Fprintf(w, "bglm: %s was left by a run on another machine or before this one started; remove it unless that run goes on\n", shell.Visible(path))
			}
		}
	}
}

// alive reports whether a process may be alive. A reused number keeps a dead file, which is less
// harmful than the loss of a live one.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	err = p.Signal(syscall.Signal(0))
	return !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH)
}

// TempFolder creates a session's folder for temporary files.
func TempFolder() (string, error) {
	sweep(filepath.Join(os.TempDir(), "session"), nil)
	dir, err := os.MkdirTemp("", tempPattern("session"))
	if err != nil {
		err = fmt.Errorf("no directory for files of the session, in %s (TMPDIR says where): %w", os.TempDir(), err)
	}
	return dir, err
}

// target is the file that a path leads to through symbolic links; it need not exist.
func target(path string) (string, error) {
	const most = 40 // as Linux follows
	to := path
	for range most {
		st, err := os.Lstat(to)
		if err != nil || st.Mode()&os.ModeSymlink == 0 {
			return to, nil // the folder will give the error again
		}
		next, err := os.Readlink(to)
		if err != nil {
			return path, err
		}
		if filepath.IsAbs(next) {
			to = next
			continue
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(to)) // .. is relative to it
		if err != nil {
			return path, err
		}
		to = filepath.Join(dir, next)
	}
	return path, errors.New("a symbolic link that leads nowhere")
}

// Atomically calls write to create a file beside path and renames it once it is complete. An
// existing file keeps its permissions, and a symbolic link stays one. Remains of other runs are
// removed, or reported on warn. Errors call the path --out.
func Atomically(path string, warn io.Writer, write func(tmp string) error) (err error) {
	path, err = target(path)
	if err != nil {
		return fmt.Errorf("--out %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	if st, err := os.Stat(dir); err != nil {
		return fmt.Errorf("--out %s: %w", path, err)
	} else if !st.IsDir() {
		return fmt.Errorf("--out %s: %s is no folder", path, dir)
	}
	mode := os.FileMode(0o644)
	if old, err := os.Stat(path); err == nil {
		if old.IsDir() {
			return fmt.Errorf("--out %s: is a folder", path)
		}
		if !old.Mode().IsRegular() { // the rename would replace it by a file
			return fmt.Errorf("--out %s: a pipe or a device; allowed: a file, and for predictions the standard output, --out -", path)
		}
		mode = old.Mode().Perm()
	}
	sweep(path, warn)
	f, err := os.CreateTemp(dir, tempPattern(filepath.Base(path)))
	if err != nil {
		return fmt.Errorf("--out %s: %w", path, err)
	}
	tmp := f.Name()
	f.Close()
	os.Remove(tmp) // DuckDB creates its databases itself
	defer func() {
		if err != nil {
			os.Remove(tmp)
			os.Remove(tmp + ".wal")
		}
	}()
	if err := write(tmp); err != nil {
		return err
	}
	if err := os.Chmod(tmp, mode); err != nil {
		return err
	}
	if f, err = os.OpenFile(tmp, os.O_RDWR, 0); err != nil {
		return fmt.Errorf("--out %s: %w", path, err)
	}
	// Otherwise a crash of the machine could leave the new name with an empty file.
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("--out %s: %w", path, err)
	}
	return os.Rename(tmp, path)
}

// Create is Atomically for output through an io.Writer.
func Create(path string, warn io.Writer, write func(io.Writer) error) error {
	return Atomically(path, warn, func(tmp string) error {
		f, err := os.Create(tmp)
		if err != nil {
			return err
		}
		// Hide Close: writers of Arrow and Parquet close any io.Closer.
		return errors.Join(write(struct{ io.Writer }{f}), f.Close())
	})
}

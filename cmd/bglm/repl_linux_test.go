package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// With this variable the test binary is the program itself, so that the shell
// can be tried on a separate terminal.
const beMain = "BGLM_TEST_IS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" {
		setDataLimit()
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if os.Getenv(mutantServer) != "" {
		os.Exit(serveMutants())
	}
	os.Exit(m.Run())
}

// console is the other side of a pseudo terminal.
type console struct {
	t    *testing.T
	ptmx *os.File
	mu   sync.Mutex
	text strings.Builder
	seen int // what expect has passed
}

func newConsole(t *testing.T) (c *console, tty *os.File) {
	t.Helper()
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	fd := int(ptmx.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		t.Fatal(err)
	}
	c = &console{t: t, ptmx: ptmx}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := ptmx.Read(buf)
			c.mu.Lock()
			c.text.Write(buf[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return c, tty
}

func (c *console) send(keys string) {
	c.t.Helper()
	if _, err := c.ptmx.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// expect waits until text is printed after what was expected before.
func (c *console) expect(text string) {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		i := strings.Index(c.text.String()[c.seen:], text)
		if i >= 0 {
			c.seen += i + len(text)
		}
		c.mu.Unlock()
		if i >= 0 {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Fatalf("waited in vain for %q after\n%q", text, c.text.String()[c.seen:])
}

// newShell is `bglm sql` on a terminal of its own, with variables of the environment; done tells
// how it ended.
func newShell(t *testing.T, env ...string) (c *console, done <-chan error) {
	t.Helper()
	c, tty := newConsole(t)
	cmd := exec.Command(os.Args[0], "sql")
	cmd.Env = append(append(os.Environ(), beMain+"=1", "BGLM_HISTORY="+filepath.Join(t.TempDir(), "history"), "TERM=xterm"), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		c.ptmx.Close()
	})
	return c, ended
}

// With .pager a long result is read in $PAGER and a short one printed; without that program
// results come as before.
func TestPagerOnTerminal(t *testing.T) {
	const rows = "SELECT i, repeat('wide', 50) FROM range(500) t(i);\r"
	t.Run("none", func(t *testing.T) {
		c, _ := newShell(t, "PAGER=no-such-pager")
		c.expect("bglm> ")
		c.send(".pager on\r")
		c.expect("bglm> ")
		c.send("SELECT 'sh' || 'own' AS x;\r")
		c.expect("no-such-pager")
		c.expect("│ shown ")
		c.expect("bglm> ")
	})
	t.Run("less", func(t *testing.T) {
		if _, err := exec.LookPath("less"); err != nil {
			t.Skip(err)
		}
		c, _ := newShell(t, "PAGER=less")
		c.expect("bglm> ")
		c.send(".pager on\r")
		c.expect("bglm> ")
		c.send("SELECT 'sh' || 'ort' AS x;\r") // fits on the screen: no key is waited for
		c.expect("│ short ")
		c.expect("bglm> ")
		c.send(rows)
		c.expect("│     30 │ widewide")
		c.expect(":")
		c.send("G")
		c.expect("│    499 │ widewide")
		c.send("q")
		c.expect("bglm> ")
	})
}

func TestREPL(t *testing.T) {
	history := filepath.Join(t.TempDir(), "history")
	c, done := newShell(t, "BGLM_HISTORY="+history)
	c.expect("bglm> ")
	c.send("SELECT 40 +\r")
	c.expect(" ...> ")
	c.send("2 AS answer;\r")
	c.expect("     42 │")
	c.expect("bglm> ")

	c.send("SELECT nope;\r") // an error does not end the shell
	c.expect("Binder Error")
	c.expect("bglm> ")

	c.send("half a line\x03") // Ctrl-C drops it
	c.expect("^C")
	c.expect("bglm> ")
	c.send("SELECT (\r")
	c.expect(" ...> ")
	c.send("\x03")
	c.expect("bglm> ")

	c.send("SELECT count(*) FROM range(1000000000000);\r")
	time.Sleep(500 * time.Millisecond)
	c.send("\x03") // now a signal: the query is running
	c.expect("interrupted after")
	c.expect("bglm> ")

	c.send("SELECT bglm_hmc(i % 3 = 0, list_transform(range(200), lambda j: sin(i * (j + 1))), {samples: 300000}) FROM range(5000) t(i);\r")
	time.Sleep(3 * time.Second)
	began := time.Now()
	c.send("\x03")
	c.expect("interrupted after")
	c.expect("bglm> ")
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the solve gave way after %v", took)
	}

	c.send("SELECT 'still ' || 'here' AS x;\r")
	c.expect("│ still here │")
	c.expect("bglm> ")
	c.send("\x1b[A\r") // the statement before, from the history
	c.expect("│ still here │")
	c.expect("bglm> ")

	c.send("\x04") // Ctrl-D
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the shell ends with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Ctrl-D does not end the shell")
	}
	text, err := os.ReadFile(history)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "SELECT 40 + 2 AS answer;\n") {
		t.Errorf("the history is %q", text)
	}
	if info, err := os.Stat(history); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history file has mode %v, want 0600 (%v)", info.Mode(), err)
	}
}

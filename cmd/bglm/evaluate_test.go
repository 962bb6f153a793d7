package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
)

// The table is what the command is for: a quiet one leaves out the remarks below it.
func TestQuietEvaluate(t *testing.T) {
	data := file(t, "d.csv", "y,x\n1,0.5\n0,-0.5\n1,0.2\n0,0.1\n")
	fit := filepath.Join(t.TempDir(), "f.parquet")
	ok(t, "fit", data, "-f", "y ~ x", "--out", fit, "-q")
	loud, quiet := ok(t, "evaluate", "-b", fit, data).stdout, ok(t, "evaluate", "-b", fit, data, "-q").stdout
	if remarks, ok := strings.CutPrefix(loud, quiet); !ok || !strings.Contains(quiet, "log loss") || !strings.Contains(remarks, "learnt from") || strings.Contains(remarks, "│") {
		t.Errorf("%s\nquiet: %s", loud, quiet)
	}
}

// A job that the user has ended prints no figures and does not exit as if done, however late that
// was.
func TestEvaluateInterruptedAtItsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out, messages bytes.Buffer
	s, err := duck.Open(&cli.Env{Ctx: ctx, Stdout: &out, Stderr: &messages}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cancel()
	<-s.Ctx.Done()
	for _, quiet := range []bool{false, true} {
		c := &evaluateCommand{}
		c.Quiet = quiet
		if err := c.show(s, &quality{N: 1}); !errors.Is(err, cli.ErrInterrupted) || out.Len() > 0 {
			t.Errorf("quiet %v: %v, printed %q", quiet, err, out.String())
		}
	}
}

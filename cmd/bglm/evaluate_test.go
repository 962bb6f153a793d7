package main

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
)

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

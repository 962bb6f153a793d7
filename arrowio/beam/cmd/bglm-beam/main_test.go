package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/bglm/bglm/arrowio"
)

// The command fits on Prism by its flags, which are none of Beam's.
func TestCommand(t *testing.T) {
	beam.Init()
	var c command
	f := flag.NewFlagSet("bglm-beam", flag.ContinueOnError)
	flag.VisitAll(func(of *flag.Flag) { f.Var(of.Value, of.Name, of.Usage) }) // Beam's
	c.flags(f)
	out := filepath.Join(t.TempDir(), "fit.parquet")
	if err := f.Parse([]string{"-y", "delay", "-x", "distance", "-option", "family=gaussian", "-option", "dispersion=900", "-out", out, "../../../../testdata/flights.parquet"}); err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	if err := c.run(t.Context(), f.Args(), &stdout); err != nil {
		t.Fatal(err)
	}
	if got := stdout.String(); !strings.Contains(got, ": 1 fits; ") {
		t.Error(got)
	}
	fit, err := arrowio.ReadParquetFile(out, nil)
	if err != nil || fit.N != 500_000 || len(fit.Beliefs) != 2 || fit.Dispersion != 900 || !fit.Converged {
		t.Errorf("%v: %+v", err, fit)
	}
	few := c
	few.rounds, few.job.Options = 1, ""
	few.given = map[string]json.RawMessage{"family": json.RawMessage(`"gaussian"`)}
	few.job.Terms = nil
	if err := few.run(t.Context(), f.Args(), &stdout); err == nil || !strings.Contains(err.Error(), "1 fits have not converged") {
		t.Error(err)
	}
	for want, change := range map[string]func(*command){
		"-out is missing": func(c *command) { c.out = "" },
		"allowed: 1":      func(c *command) { c.rounds = -1 },
	} {
		bad := c
		bad.job.Terms = nil
		change(&bad)
		if err := bad.run(t.Context(), f.Args(), &stdout); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

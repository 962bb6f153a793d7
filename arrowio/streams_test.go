package arrowio

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

var addStreams = flag.Bool("add-streams", false, "write files of streams that are not there yet")

// stoppedStream are the options of a stream of TestStoredStreams.
type stoppedStream struct {
	name, method, covariance, family string
	bare                             bool
	tol                              float64 // nothing: the bits
	far                              float64 // by how many deviations means may be off; nothing: tol
}

// after is rows lo to hi of a fixed table, after those of start.
func (c stoppedStream) after(t *testing.T, start *kernels.Fit, lo, hi int) *kernels.Fit {
	t.Helper()
	s := option.Defaults()
	s.Family, s.Options.Covariance, s.NoIntercept = c.family, c.covariance, c.bare
	if c.covariance == "lowrank" {
		s.Options.Rank = 20
	}
	s.Options.AutoShape = c.family == "negbinomial"
	if start != nil {
		if err := s.Continue(start); err != nil {
			t.Fatal(err)
		}
	}
	var u, y []float64
	var g []string
	for i := lo; i < hi; i++ {
		k := float64(i*37%101) / 10 // no function that rounds otherwise elsewhere
		u, g = append(u, 40+3*k), append(g, fmt.Sprint("g", i*i%3))
		switch c.family {
		case "gaussian", "studentt":
			y = append(y, 700+25*k+float64(i*71%53))
		case "bernoulli":
			y = append(y, float64(i*71%53%2))
		case "gamma":
			y = append(y, float64(40+i*71%53))
		default:
			y = append(y, float64(i*i%7*(i%3)))
		}
	}
	f, err := engine.Fit(context.Background(), c.method, s, &rows.Table{X: rows.Fields(rows.Numbers("u", u), rows.Texts("g", g)), Y: rows.Numbers("y", y)})
	if err != nil {
		t.Fatal(err)
	}
	return f.Fit
}

// Files of streams that stopped after eleven rows, in the units of eight, are continued for ever
// as the streams that did not stop. Layout 4 keeps what they go on with in learnt.
func TestStoredStreams(t *testing.T) {
	dir := filepath.Join("..", "testdata", "fits", "streams")
	for _, c := range []stoppedStream{
		{"arrowhead", "adf", "arrowhead", "gaussian", false, 0, 0},
		{"arrowhead_learns", "adf", "arrowhead", "gaussian", false, 0, 0}, // its prior variances, from 16 weights on
		{"arrowhead_bare", "adf", "arrowhead", "gaussian", true, 1e-12, 0},
		// Their first eleven rows count by the noise of single steps, and so do those that follow.
		{"arrowhead_steps", "adf", "arrowhead", "gaussian", false, 0.3, 0.15},
		{"arrowhead_bare_steps", "adf", "arrowhead", "gaussian", true, 0.3, 0.25},
		{"full_steps", "adf", "full", "gaussian", false, 0.3, 0.15},
		{"diagonal", "adf", "diagonal", "gaussian", false, 1e-12, 0},
		// Its first eleven rows taught a noise a million times too small, as if ties were kept: it
		// begins anew.
		{"diagonal_tight", "adf", "diagonal", "gaussian", false, 0.2, 1.5},
		{"full", "adf", "full", "gaussian", false, 1e-11, 0},
		{"full_bernoulli", "sequential_laplace", "full", "bernoulli", false, 1e-11, 0},
		// The scale of their first eleven rows was that of the responses, under which they go on to count;
		// those that follow learn it.
		{"lowrank", "adf", "lowrank", "studentt", false, 0.2, 0.4},
		{"studentt", "adf", "full", "studentt", false, 0.2, 0.4},
		{"lowrank_scale", "adf", "lowrank", "studentt", false, 1e-5, 0},
		{"studentt_scale", "adf", "full", "studentt", false, 1e-11, 0},
		{"arrowhead_scale", "adf", "arrowhead", "studentt", false, 0, 0},
		{"gamma", "adf", "arrowhead", "gamma", false, 0, 0},
		{"negbinomial", "adf", "arrowhead", "negbinomial", false, 0, 0},
		// Its first eleven rows learnt the size by the squares of their scores.
		{"negbinomial_squares", "adf", "arrowhead", "negbinomial", false, 0.05, 0},
	} {
		whole := c.after(t, nil, 0, 60)
		for _, ext := range []string{".parquet", ".arrow"} {
			path := filepath.Join(dir, c.name+ext)
			if _, err := os.Stat(path); err != nil && *addStreams {
				write := WriteParquetFile
				if ext == ".arrow" {
					write = WriteIPCFile
				}
				if err := write(path, c.after(t, nil, 0, 11)); err != nil {
					t.Fatal(err)
				}
			}
			f, _, err := ReadFitFile(path, nil)
			if err != nil {
				t.Error(err)
				continue
			}
			if len(f.Learnt) == len(kernels.Parameters(f.Learnt)) && c.name != "arrowhead_steps" {
				t.Errorf("%s: nothing is kept in %v", path, f.Learnt)
			}
			got := c.after(t, f, 11, 60)
			tol := max(c.tol, 1e-12) // files were written on one kind of processor
			means := kerneltest.Tol{Rel: tol, Abs: tol}
			if c.far > 0 {
				means = kerneltest.Tol{Abs: c.far}
			}
			for k, w := range whole.Beliefs {
				sd := math.Sqrt(w.Variance)
				kerneltest.Close(t, path+": mean of "+w.Feature, got.Beliefs[k].Mean/sd, w.Mean/sd, means)
				kerneltest.Close(t, path+": variance of "+w.Feature, got.Beliefs[k].Variance/w.Variance, 1, kerneltest.Tol{Rel: tol})
			}
			kerneltest.Close(t, path+": dispersion", got.Dispersion/whole.Dispersion, 1, kerneltest.Tol{Rel: tol})
			if !math.IsNaN(whole.Shape) {
				kerneltest.Close(t, path+": shape", got.Shape/whole.Shape, 1, kerneltest.Tol{Rel: tol})
			}
			if now := c.after(t, c.after(t, nil, 0, 11), 11, 60); c.tol == 0 && now.LogEvidence != whole.LogEvidence {
				t.Errorf("%s: log evidence %v, want the bits of %v", c.name, now.LogEvidence, whole.LogEvidence)
			}
		}
	}
}

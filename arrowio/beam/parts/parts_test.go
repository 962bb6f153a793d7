package parts

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// rowsFile writes n rows with counts, a number and levels to a file of row groups of 122,880 rows.
func rowsFile(t *testing.T, n int) string {
	t.Helper()
	s := arrow.NewSchema([]arrow.Field{{Name: "y", Type: arrow.PrimitiveTypes.Float64}, {Name: "x", Type: arrow.PrimitiveTypes.Float64},
		{Name: "g", Type: arrow.BinaryTypes.String}, {Name: "odd name", Type: arrow.PrimitiveTypes.Float64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		b.Field(0).(*array.Float64Builder).Append(float64(rng.IntN(40)))
		b.Field(1).(*array.Float64Builder).Append(rng.NormFloat64())
		b.Field(2).(*array.StringBuilder).Append(fmt.Sprint(i % 3))
		b.Field(3).(*array.Float64Builder).Append(1)
	}
	rec := b.NewRecordBatch()
	r, err := array.NewRecordReader(s, []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rows.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := pqrows.FromArrow(f, r); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// states are those of the single fit of some files, as bytes.
func states(t *testing.T, job *Job) (out [][]byte) {
	t.Helper()
	r, err := NewReader(job)
	if err != nil {
		t.Fatal(err)
	}
	splits, err := job.Splits()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range splits {
		if _, err := r.Read(t.Context(), s, 0, nil, func(_ string, s State) error {
			b, err := s.Bytes()
			out = append(out, b)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Merging is associative and commutative to rounding, the empty state is its identity, and
// states go through bytes.
func TestMergeLaws(t *testing.T) {
	files := []string{rowsFile(t, 500), rowsFile(t, 300), rowsFile(t, 200)}
	for _, method := range []string{Laplace, EP, ADF} {
		job := &Job{Files: files, Y: "y", Terms: [][]string{{"x"}, {"g"}}, Method: method, Options: `{"family": "gaussian", "dispersion": 2}`}
		all := states(t, job)
		m, err := NewMerger(job)
		if err != nil {
			t.Fatal(err)
		}
		join := func(order ...int) *kernels.Fit {
			var s State
			for _, k := range order {
				var next State
				if k >= 0 {
					if next, err = DecodeState(all[k]); err != nil {
						t.Fatal(err)
					}
				}
				if s, err = m.Merge(t.Context(), s, next); err != nil {
					t.Fatal(err)
				}
				b, err := s.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				if s, err = DecodeState(b); err != nil {
					t.Fatal(err)
				}
			}
			v, err := NewSolver(job)
			if err != nil {
				t.Fatal(err)
			}
			it, err := v.Solve(t.Context(), "[]", s, nil)
			if err != nil {
				t.Fatal(err)
			}
			f, err := it.Fit()
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		want := join(0, 1, 2)
		if want.N != 1000 {
			t.Errorf("%s: %d rows", method, want.N)
		}
		for _, order := range [][]int{{2, 1, 0}, {1, -1, 0, 2}, {-1, 2, 0, 1, -1}} {
			got := join(order...)
			for i, b := range want.Beliefs {
				kerneltest.Close(t, method+" "+b.Feature, got.Beliefs[i].Mean, b.Mean, kerneltest.Tol{Rel: 1e-11, Abs: 1e-12})
				kerneltest.Close(t, method+" variance of "+b.Feature, got.Beliefs[i].Variance, b.Variance, kerneltest.Tol{Rel: 1e-11})
			}
			kerneltest.Close(t, method+" evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 1e-10})
		}
	}
}

// A step that leads away is taken back by halves: counts from weights of 0 overshoot, and end
// at the mode that passes from a near fit end at.
func TestStepsGoBack(t *testing.T) {
	path := rowsFile(t, 400)
	job := &Job{Files: []string{path}, Y: "y", Terms: [][]string{{"x"}}, Method: Laplace, Options: `{"family": "poisson", "prior_variance": 100, "intercept_variance": 100}`}
	solve := func(job *Job) (f *kernels.Fit, rounds, back int) {
		r, err := NewReader(job)
		if err != nil {
			t.Fatal(err)
		}
		v, err := NewSolver(job)
		if err != nil {
			t.Fatal(err)
		}
		splits, err := job.Splits()
		if err != nil {
			t.Fatal(err)
		}
		var it *Iterate
		for rounds = 1; rounds < 60; rounds++ {
			around := map[string]*Iterate{}
			if it != nil {
				around["[]"] = it
			}
			var all State
			if _, err := r.Read(t.Context(), splits[0], rounds-1, around, func(_ string, s State) error {
				all = s
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			before := it
			if it, err = v.Solve(t.Context(), "[]", all, it); err != nil {
				t.Fatal(err)
			}
			if before != nil && before.height == it.height {
				back++
			}
			if it, err = DecodeIterate(it.Bytes()); err != nil {
				t.Fatal(err)
			}
			if it.Done {
				break
			}
		}
		if f, err = it.Fit(); err != nil || !it.Done {
			t.Fatalf("%v after %d rounds: %s", err, rounds, f.Status)
		}
		return f, rounds, back
	}
	cold, rounds, back := solve(job)
	if back == 0 {
		t.Errorf("no step was taken back in %d rounds", rounds)
	}
	from := filepath.Join(t.TempDir(), "from.parquet")
	if err := job.Write(t.Context(), from, Fits{"[]": cold}); err != nil {
		t.Fatal(err)
	}
	near := *job
	near.From = from
	warm, few, _ := solve(&near)
	if few > 2 || warm.N != 400 {
		t.Errorf("%d rounds from the fit itself", few)
	}
	for i, b := range cold.Beliefs {
		kerneltest.Close(t, b.Feature, warm.Beliefs[i].Mean, b.Mean, kerneltest.Tol{Rel: 1e-10})
	}
}

// Bytes that are none are errors, cut or changed ones too.
func TestBytes(t *testing.T) {
	job := &Job{Files: []string{rowsFile(t, 50)}, Y: "y", Terms: [][]string{{"x"}}, Method: Laplace, Options: `{"family": "poisson"}`}
	b := states(t, job)[0]
	later := slices.Clone(b)
	later[10]++
	for what, bad := range map[string][]byte{"none": nil, "another": []byte("x"), "longer": []byte("nn"), "cut": b[:len(b)-2], "changed": append(slices.Clone(b[:40]), make([]byte, len(b)-40)...), "later": later} {
		if _, err := DecodeState(bad); err == nil {
			t.Errorf("state, %s: no error", what)
		}
	}
	it := (&Iterate{fit: []byte("fit"), best: []byte("best"), Done: true, height: 3}).Bytes()
	again, err := DecodeIterate(it)
	if err != nil || !again.Done || again.height != 3 || !bytes.Equal(again.fit, []byte("fit")) || !bytes.Equal(again.best, []byte("best")) {
		t.Errorf("%+v, %v", again, err)
	}
	later = slices.Clone(it)
	later[len(iterateMark)-1]++
	for what, bad := range map[string][]byte{"none": nil, "cut": it[:len(iterateMark)+18], "later": later} {
		if _, err := DecodeIterate(bad); err == nil {
			t.Errorf("iterate, %s: no error", what)
		}
	}
}

// Splits are whole row groups, of as many rows as asked for at least.
func TestSplits(t *testing.T) {
	const flights = "../../../testdata/flights.parquet"
	for rows, want := range map[int64]string{0: "[0-1 1-2 2-3 3-4 4-5]", 200_000: "[0-2 2-4 4-5]", 1 << 40: "[0-5]"} {
		splits, err := (&Job{Files: []string{flights}, SplitRows: rows}).Splits()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		n := int64(0)
		for _, s := range splits {
			got, n = append(got, fmt.Sprintf("%d-%d", s.First, s.End)), n+s.Rows
		}
		if fmt.Sprint(got) != want || n != 500_000 {
			t.Errorf("%d: %v of %d rows, want %s", rows, got, n, want)
		}
	}
}

// The job is kept as bglm fit keeps it, names quoted.
func TestMeta(t *testing.T) {
	j := &Job{Y: "y", Terms: [][]string{{"odd name"}, {"g", `a"b`}}, Group: []string{"k"}, Offset: "o"}
	if got, want := strings.Join(j.Meta(), "|"), `formula|"y" ~ "odd name" + "g":"a""b"|group.k|"k"|option.offset|"o"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	j = &Job{Y: "y", Features: "f"}
	if got := strings.Join(j.Meta(), "|"); got != `y|"y"|x|"f"` {
		t.Error(got)
	}
}

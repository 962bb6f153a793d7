package beam

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/beam/parts"
	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// flights writes every so many rows of testdata/flights.parquet to files of row groups of so
// many rows, with late (more than 15 minutes) and distance in thousands of miles, and returns
// their pattern.
func flights(t testing.TB, every, inFile, inGroup int) string {
	t.Helper()
	r, err := pqrows.Open(t.Context(), "../../testdata/flights.parquet", []string{"delay", "distance", "origin", "destination"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	schema := arrow.NewSchema([]arrow.Field{{Name: "late", Type: arrow.FixedWidthTypes.Boolean}, {Name: "origin", Type: arrow.BinaryTypes.String},
		{Name: "destination", Type: arrow.BinaryTypes.String}, {Name: "distance", Type: arrow.PrimitiveTypes.Float64}}, nil)
	dir := t.TempDir()
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	files := 0
	flush := func() {
		rec := b.NewRecordBatch()
		defer rec.Release()
		if rec.NumRows() == 0 {
			return
		}
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("part-%02d.parquet", files)))
		if err != nil {
			t.Fatal(err)
		}
		files++
		w, err := pqarrow.NewFileWriter(schema, f, parquet.NewWriterProperties(parquet.WithMaxRowGroupLength(int64(inGroup))), pqarrow.DefaultWriterProps())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteBuffered(rec); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	at := 0
	for r.Next() {
		rec := r.RecordBatch()
		col := func(name string) arrow.Array { return rec.Column(rec.Schema().FieldIndices(name)[0]) }
		delay, distance := col("delay").(*array.Int16), col("distance").(*array.Int16)
		for i := range int(rec.NumRows()) {
			if at++; at%every != 0 {
				continue
			}
			b.Field(0).(*array.BooleanBuilder).Append(delay.Value(i) > 15)
			for k, name := range []string{"origin", "destination"} {
				b.Field(1 + k).(*array.StringBuilder).Append(col(name).ValueStr(i))
			}
			b.Field(3).(*array.Float64Builder).Append(float64(distance.Value(i)) / 1000)
			if b.Field(0).Len() == inFile {
				flush()
			}
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	flush()
	return filepath.Join(dir, "part-*.parquet")
}

// alone are the fits of one process: all rows of the job in one engine, by group.
func alone(t testing.TB, job *parts.Job, method string) parts.Fits {
	t.Helper()
	m, err := engine.Find(method)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]json.RawMessage{}
	if job.Options != "" {
		if err := json.Unmarshal([]byte(job.Options), &given); err != nil {
			t.Fatal(err)
		}
	}
	s, err := option.For(method).Decode(func(yield func(string, option.Source) bool) {
		for key, v := range given {
			if !yield(key, option.JSON(v, "JSON")) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	model, err := m.Model(s, false, false)
	if err != nil {
		t.Fatal(err)
	}
	in := arrowio.Job{Y: job.Y, Group: job.Group, Method: method, Model: *model}
	for _, term := range job.Terms {
		in.Terms = append(in.Terms, term)
	}
	names, err := filepath.Glob(job.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	var f *arrowio.Fitter
	for _, name := range names {
		r, err := pqrows.Open(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f == nil {
			if f, err = arrowio.NewFitter(r.Schema(), in); err != nil {
				t.Fatal(err)
			}
		}
		for r.Next() {
			if err := f.Add(t.Context(), r.RecordBatch()); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	g, err := f.Groups(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	out := parts.Fits{}
	for k, fit := range g.Fits {
		key, err := g.Key(k)
		if err != nil {
			t.Fatal(err)
		}
		out[key] = fit
	}
	return out
}

// apart is how far the weights of a fit are from another's: the largest difference of means in
// posterior deviations, and of deviations in shares.
func apart(t testing.TB, got, want *kernels.Fit) (means, deviations float64) {
	t.Helper()
	if got.N != want.N || got.Skipped != want.Skipped || len(got.Beliefs) != len(want.Beliefs) {
		t.Fatalf("%d rows, %d weights; want %d, %d", got.N, len(got.Beliefs), want.N, len(want.Beliefs))
	}
	for i, b := range want.Beliefs {
		g := got.Beliefs[i]
		if g.Feature != b.Feature {
			t.Fatalf("weight %d is %s, want %s", i, g.Feature, b.Feature)
		}
		sd := math.Sqrt(b.Variance)
		means = max(means, math.Abs(g.Mean-b.Mean)/sd)
		deviations = max(deviations, math.Abs(math.Sqrt(g.Variance)/sd-1))
	}
	return means, deviations
}

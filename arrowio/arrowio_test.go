package arrowio

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
)

func bits(v float64) uint64 {
	if math.IsNaN(v) {
		return math.Float64bits(math.NaN())
	}
	return math.Float64bits(v)
}

// equal compares all of two fits, floats by their bits.
func equal(a, b *kernels.Fit) error {
	head := func(f *kernels.Fit) string {
		return fmt.Sprintf("%q %q %q %x %x %v %d %x %x %x %x %d %d %x %d %v %q", f.Method, f.Family, f.Link, bits(f.Shape), bits(f.Dispersion),
			f.Intercept, f.HashBits, bits(f.Prior.Mean), bits(f.Prior.Variance), bits(f.Prior.InterceptVariance), bits(f.Time), f.N, f.Skipped,
			bits(f.LogEvidence), f.Iterations, f.Converged, f.Status)
	}
	if x, y := head(a), head(b); x != y {
		return fmt.Errorf("heads differ:\n%s\n%s", x, y)
	}
	if len(a.Beliefs) != len(b.Beliefs) {
		return fmt.Errorf("%d and %d beliefs", len(a.Beliefs), len(b.Beliefs))
	}
	for i := range a.Beliefs {
		x, y := a.Beliefs[i], b.Beliefs[i]
		if x.Feature != y.Feature || bits(x.Mean) != bits(y.Mean) || bits(x.Variance) != bits(y.Variance) {
			return fmt.Errorf("belief %d: %v and %v", i, x, y)
		}
	}
	if x, y := a.Covariance, b.Covariance; x.Form != y.Form || x.Rank != y.Rank || !slices.Equal(x.Values, y.Values) {
		return fmt.Errorf("covariances differ: %v and %v", x, y)
	}
	if x, y := fmt.Sprintf("%v %v", a.Columns, a.Columns == nil), fmt.Sprintf("%v %v", b.Columns, b.Columns == nil); x != y {
		return fmt.Errorf("columns differ: %s and %s", x, y)
	}
	if !slices.Equal(a.Classes, b.Classes) {
		return fmt.Errorf("classes %q and %q", a.Classes, b.Classes)
	}
	return nil
}

func sample() *kernels.Fit {
	return &kernels.Fit{Method: "adf", Family: "bernoulli", Link: "probit", Shape: math.NaN(), Dispersion: 1, Intercept: true,
		Prior: kernels.DefaultPrior, Time: math.NaN(), N: 12, Skipped: 1, LogEvidence: -7.25, Iterations: 1, Converged: true, Status: "ok",
		Beliefs: []kernels.Belief{
			{Feature: "(Intercept)", Weight: kernels.Weight{Mean: -1.5, Variance: 0.25}},
			{Feature: "2", Weight: kernels.Weight{Mean: 0.5, Variance: 1}},
			{Feature: "10", Weight: kernels.Weight{Mean: math.Copysign(0, -1), Variance: 0}},
			{Feature: "origin=ATL", Weight: kernels.Weight{Mean: 1e-300, Variance: 5e-324}},
			{Feature: "été=\x00", Weight: kernels.Weight{Mean: math.MaxFloat64, Variance: math.MaxFloat64}},
		}}
}

func fits() *rapid.Generator[*kernels.Fit] {
	return rapid.Custom(func(t *rapid.T) *kernels.Fit {
		finite := rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64)
		variance := rapid.Float64Range(0, math.MaxFloat64)
		orNaN := rapid.OneOf(finite, rapid.Just(math.NaN()))
		model := rapid.SampledFrom([][2]string{{"bernoulli", "logit"}, {"bernoulli", "probit"}, {"bernoulli", "cloglog"}, {"poisson", "log"}, {"gaussian", "identity"}}).Draw(t, "model")
		f := &kernels.Fit{
			Method: rapid.String().Draw(t, "method"), Family: model[0], Link: model[1],
			Shape: math.NaN(), Dispersion: rapid.Float64Range(1e-3, 1e3).Draw(t, "dispersion"),
			Intercept: rapid.Bool().Draw(t, "intercept"), HashBits: rapid.IntRange(0, 30).Draw(t, "hash_bits"),
			Prior: kernels.Prior{Mean: finite.Draw(t, "pm"), Variance: variance.Draw(t, "pv"), InterceptVariance: variance.Draw(t, "pi")},
			Time:  orNaN.Draw(t, "time"), N: rapid.Int64Range(0, kernels.MaxCount).Draw(t, "n"), Skipped: rapid.Int64Range(0, kernels.MaxCount).Draw(t, "skipped"),
			LogEvidence: rapid.OneOf(rapid.Float64Max(math.MaxFloat64), rapid.Just(math.NaN()), rapid.Just(math.Inf(-1))).Draw(t, "evidence"),
			Iterations:  int(rapid.Int32Min(0).Draw(t, "iterations")), Converged: rapid.Bool().Draw(t, "converged"),
			Status: rapid.String().Draw(t, "status"),
		}
		if rapid.Bool().Draw(t, "has shape") {
			f.Shape = rapid.Float64Range(0.1, 10).Draw(t, "shape")
		}
		names := rapid.SliceOfDistinct(rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9]{1,20}`), rapid.Just(kernels.Intercept)), rapid.ID[string]).Draw(t, "names")
		slices.SortFunc(names, kernels.CompareNames)
		for _, n := range names {
			f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: n, Weight: kernels.Weight{Mean: finite.Draw(t, "mean"), Variance: variance.Draw(t, "variance")}})
		}
		if d := len(f.Beliefs); d > 0 && rapid.Bool().Draw(t, "has classes") {
			f.Family, f.Link = "multinomial", "softmax"
			f.Classes = rapid.SliceOfNDistinct(rapid.String(), 1, 4, rapid.ID[string]).Draw(t, "classes")
			for k := range (len(f.Classes) - 1) * d {
				f.Beliefs = append(f.Beliefs, f.Beliefs[k%d])
			}
		}
		if rapid.Bool().Draw(t, "has columns") {
			f.Columns = []kernels.FitColumn{}
			for _, name := range rapid.SliceOfNDistinct(rapid.String(), 0, 3, strings.ToLower).Draw(t, "columns") {
				c := kernels.FitColumn{Name: name, Kind: rapid.SampledFrom([]string{kernels.NumberColumn, kernels.LevelsColumn}).Draw(t, "kind"),
					N: rapid.Int64Range(0, kernels.MaxCount).Draw(t, "rows"), Center: orNaN.Draw(t, "center"), Scale: math.NaN(), Variance: math.NaN()}
				if c.Missing = rapid.Int64Range(0, c.N).Draw(t, "missing"); rapid.Bool().Draw(t, "scaled") {
					c.Scale, c.Variance = rapid.Float64Range(1e-300, 1e300).Draw(t, "scale"), variance.Draw(t, "column variance")
				}
				f.Columns = append(f.Columns, c)
			}
		}
		c := &f.Covariance
		switch c.Form = gauss.Form(rapid.IntRange(0, 3).Draw(t, "form")); c.Form {
		case gauss.LowRank:
			c.Rank = rapid.IntRange(0, 3).Draw(t, "rank")
		case gauss.Arrowhead:
			if c.Rank = rapid.IntRange(0, min(3, len(f.Beliefs))).Draw(t, "block"); len(f.Beliefs) == 0 {
				c.Form = gauss.Diagonal // a block is stored with the first belief
			}
		}
		if n := c.NumValues(len(f.Beliefs)); n > 0 {
			c.Values = rapid.SliceOfN(rapid.Float64Range(-1e140, 1e140), n, n).Draw(t, "covariance")
		}
		// One that is positive semi-definite: any triangle with a diagonal >= 0; d no less
		// than p times the squares of its row of F.
		if c.Form == gauss.Arrowhead {
			for i := range c.Values {
				c.Values[i] *= 1e-90
			}
			a := c.Arrow()
			for j := range c.Rank {
				c.Values[c.Rank+j] = 0
				a.Root(j)[j] = math.Abs(a.Root(j)[j])
			}
			for j := range f.Beliefs {
				r := a.Row(j)
				if r[0] = -1; j < c.Rank {
					clear(r)
					r[0] = float64(-2 - j)
				}
				r[2] = math.Abs(r[2])
				f.Beliefs[j].Variance = a.Variance([]int{j}, []float64{1}, make([]float64, a.D))
				f.Beliefs[j].Mean, _ = a.MeanOf(j, make([]float64, a.D))
			}
		}
		for j := range f.Beliefs {
			if c.Form == gauss.Diagonal || c.Form == gauss.Arrowhead {
				break
			}
			v := &f.Beliefs[j].Variance
			switch r := c.Row(j); c.Form {
			case gauss.Full:
				r[j] = math.Abs(r[j])
				*v = squares(r)
			case gauss.LowRank:
				taken := squares(r[1:])
				r[0] = math.Abs(r[0]) + 2*float64(len(f.Beliefs))*taken
				*v = r[0] - taken
			}
		}
		return f
	})
}

func squares(x []float64) (s float64) {
	for _, v := range x {
		s += v * v
	}
	return s
}

func parquetOf(t interface{ Fatal(...any) }, f *kernels.Fit) []byte {
	var b bytes.Buffer
	if err := WriteParquet(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(b []byte, o *Options) (*kernels.Fit, error) {
	return ReadParquet(bytes.NewReader(b), int64(len(b)), o)
}

func TestRoundTripIsBitEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := fits().Draw(t, "fit")
		b := parquetOf(t, f)
		g, err := read(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := equal(f, g); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, parquetOf(t, g)) {
			t.Fatal("equal fits gave other bytes")
		}
		rec, err := FitRecord(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer rec.Release()
		var stream bytes.Buffer
		w := ipc.NewWriter(&stream, ipc.WithSchema(rec.Schema()))
		if err := errors.Join(w.Write(rec), w.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := ipc.NewReader(&stream)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		if g, err = ReadFit(r, nil); err != nil {
			t.Fatal(err)
		}
		if err := equal(f, g); err != nil {
			t.Fatal(err)
		}
	})
}

// Many rows: several row groups, also read with a limit.
func TestManyRows(t *testing.T) {
	f := sample()
	f.Beliefs = nil
	for i := range 2*rowGroup + 17 {
		f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: fmt.Sprintf("f%07d", i), Weight: kernels.Weight{Mean: float64(i), Variance: 1}})
	}
	b := parquetOf(t, f)
	g, err := read(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := equal(f, g); err != nil {
		t.Fatal(err)
	}
	if _, err := read(b, &Options{MaxFeatures: 1000}); err == nil || !strings.Contains(err.Error(), "more than 1000 rows") {
		t.Errorf("error %v, want one about 1000 rows", err)
	}
}

func TestBeliefsAreSortedAndNotChanged(t *testing.T) {
	f := sample()
	slices.Reverse(f.Beliefs)
	g, err := read(parquetOf(t, f), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := equal(sample(), g); err != nil {
		t.Error(err)
	}
	if f.Beliefs[0].Feature != "été=\x00" {
		t.Error("writing reordered the caller's beliefs")
	}
}

func TestWritersRefuse(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*kernels.Fit)
	}{
		{`feature "2": mean = NaN`, func(f *kernels.Fit) { f.Beliefs[1].Mean = math.NaN() }},
		{`variance = -1`, func(f *kernels.Fit) { f.Beliefs[1].Variance = -1 }},
		{`"10" is there more than once`, func(f *kernels.Fit) { f.Beliefs[1].Feature = "10" }},
		{"not valid UTF-8", func(f *kernels.Fit) { f.Beliefs[1].Feature = "a\xff" }},
		{"not valid UTF-8", func(f *kernels.Fit) { f.Status = "a\xff" }},
		{"hash_bits = 31", func(f *kernels.Fit) { f.HashBits = 31 }},
		{"default prior", func(f *kernels.Fit) { f.Prior.Variance = math.Inf(1) }},
		{"the nearest is", func(f *kernels.Fit) { f.Link = "probt" }},
		{"both are needed", func(f *kernels.Fit) { f.Family = "" }},
		{"n = -1", func(f *kernels.Fit) { f.N = -1 }},
		{"time = +Inf", func(f *kernels.Fit) { f.Time = math.Inf(1) }},
	} {
		f := sample()
		c.change(f)
		if err := WriteParquet(&bytes.Buffer{}, f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("WriteParquet: error %v, want %q", err, c.want)
		}
		if _, err := FitRecord(f, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("FitRecord: error %v, want %q", err, c.want)
		}
	}
	if err := WriteParquet(&bytes.Buffer{}, nil); !errors.Is(err, kernels.ErrNoFit) {
		t.Error(err)
	}
	if err := WriteIPC(&bytes.Buffer{}, nil); !errors.Is(err, kernels.ErrNoFit) {
		t.Error(err)
	}
	if _, err := FitRecord(nil, nil); !errors.Is(err, kernels.ErrNoFit) {
		t.Error(err)
	}
	if _, err := Fit(t.Context(), nil, Job{}); err == nil || !strings.Contains(err.Error(), "reader of records is nil") {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "fit.parquet")
	if err := WriteParquetFile(path, sample()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)

	// An error leaves the old file as it was, and nothing beside it.
	bad := sample()
	bad.Beliefs[3].Mean = math.Inf(1)
	if err := WriteParquetFile(path, bad); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "mean = +Inf") {
		t.Errorf("error %v, want the path and the mean", err)
	}
	after, _ := os.ReadFile(path)
	if !bytes.Equal(before, after) {
		t.Error("a failed write changed the file")
	}
	next := sample()
	next.N = 99
	if err := WriteParquetFile(path, next); err != nil {
		t.Fatal(err)
	}
	g, err := ReadParquetFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := equal(next, g); err != nil {
		t.Error(err)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v, want those of the file before", st.Mode())
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("files left: %v", left)
	}

	if _, err := ReadParquetFile(filepath.Join(dir, "none.parquet"), nil); !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), "none.parquet") != 1 {
		t.Errorf("error %v, want one that the file does not exist", err)
	}
	if _, err := ReadParquetFile(dir, nil); err == nil {
		t.Error("a directory was read")
	}
	if err := WriteParquetFile(filepath.Join(dir, "no", "fit.parquet"), sample()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one that the directory does not exist", err)
	}
	if err := os.WriteFile(path, []byte("feature,mean,variance\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadParquetFile(path, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one with the path", err)
	}
}

// tableOf is a table in memory; cols are name, type and JSON values.
func tableOf(t *testing.T, meta *arrow.Metadata, cols ...any) array.RecordReader {
	t.Helper()
	var fs []arrow.Field
	var arrays []arrow.Array
	rows := 0
	for i := 0; i < len(cols); i += 3 {
		dt := cols[i+1].(arrow.DataType)
		a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(cols[i+2].(string)))
		if err != nil {
			t.Fatal(err)
		}
		fs, arrays, rows = append(fs, arrow.Field{Name: cols[i].(string), Type: dt, Nullable: true}), append(arrays, a), a.Len()
	}
	s := arrow.NewSchema(fs, meta)
	r, err := array.NewRecordReader(s, []arrow.RecordBatch{array.NewRecordBatch(s, arrays, int64(rows))})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPlainTables(t *testing.T) {
	u, d := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64
	f, err := ReadFit(tableOf(t, nil, "class", u, `["x","y","z"]`, "variance", arrow.PrimitiveTypes.Float32, `[1,2,0.5]`, "feature", u, `["b","3","(Intercept)"]`,
		"mean", arrow.PrimitiveTypes.Int16, `[1,-2,3]`), &Options{Link: "probit"})
	if err != nil {
		t.Fatal(err)
	}
	want := &kernels.Fit{Method: "beliefs", Family: "bernoulli", Link: "probit", Shape: math.NaN(), Dispersion: 1, Intercept: true,
		Prior: kernels.DefaultPrior, Time: math.NaN(), Converged: true, Status: "ok", Beliefs: []kernels.Belief{
			{Feature: "(Intercept)", Weight: kernels.Weight{Mean: 3, Variance: 0.5}}, {Feature: "3", Weight: kernels.Weight{Mean: -2, Variance: 2}},
			{Feature: "b", Weight: kernels.Weight{Mean: 1, Variance: 1}}}}
	if err := equal(want, f); err != nil {
		t.Error(err)
	}
	no := false
	f, err = ReadFit(tableOf(t, nil, "feature", arrow.BinaryTypes.LargeString, `["a"]`, "mean", &arrow.Decimal128Type{Precision: 10, Scale: 2}, `["1.25"]`, "variance", d, `[1]`),
		&Options{Family: "gaussian", Dispersion: 4, Intercept: &no, Prior: &kernels.Prior{Variance: 2, InterceptVariance: 3}})
	if err != nil {
		t.Fatal(err)
	}
	if f.Link != "identity" || f.Dispersion != 4 || f.Intercept || f.Prior.Variance != 2 || f.Beliefs[0].Mean != 1.25 {
		t.Errorf("got %+v", f)
	}
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: u}
	if f, err = ReadFit(tableOf(t, nil, "feature", dict, `["b","a"]`, "mean", d, `[1,2]`, "variance", d, `[1,1]`), nil); err != nil || f.Link != "logit" || f.Beliefs[0].Mean != 2 {
		t.Errorf("%+v, %v", f, err)
	}

	for _, c := range []struct {
		want string
		cols []any
		o    *Options
	}{
		{"no column mean; found: feature, avg, variance", []any{"feature", u, `["a"]`, "avg", d, `[1]`, "variance", d, `[1]`}, nil},
		{"column mean is there 2 times", []any{"feature", u, `["a"]`, "mean", d, `[1]`, "mean", d, `[1]`, "variance", d, `[1]`}, nil},
		{"column feature: its type is int64; allowed: utf8", []any{"feature", arrow.PrimitiveTypes.Int64, `[1]`, "mean", d, `[1]`, "variance", d, `[1]`}, nil},
		{"column mean: its type is utf8; allowed: a floating-point", []any{"feature", u, `["a"]`, "mean", u, `["1"]`, "variance", d, `[1]`}, nil},
		{"column mean, row 2: NULL", []any{"feature", u, `["a","b"]`, "mean", d, `[1,null]`, "variance", d, `[1,1]`}, nil},
		{"column feature, row 1: NULL", []any{"feature", u, `[null]`, "mean", d, `[1]`, "variance", d, `[1]`}, nil},
		{`row 2, feature "b": column variance = -1`, []any{"feature", u, `["a","b"]`, "mean", d, `[1,1]`, "variance", d, `[1,-1]`}, nil},
		{`"a" is there more than once`, []any{"feature", u, `["a","b","a"]`, "mean", d, `[1,1,1]`, "variance", d, `[1,1,1]`}, nil},
		{"the nearest is", []any{"feature", u, `["a"]`, "mean", d, `[1]`, "variance", d, `[1]`}, &Options{Link: "probt"}},
		{"more than 1 rows", []any{"feature", u, `["a","b"]`, "mean", d, `[1,1]`, "variance", d, `[1,1]`}, &Options{MaxFeatures: 1}},
	} {
		if _, err := ReadFit(tableOf(t, nil, c.cols...), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func TestMetadataErrors(t *testing.T) {
	full := metadataV2(sample())
	u, d := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64
	for _, c := range []struct{ key, value, want string }{
		{"bglm.schema", "4", `bglm.schema = "4"; allowed: "1", "2" and "3"`},
		{"bglm.schema", "3", "no column fit"},
		{"bglm.n", "-1", "whole number from 0"},
		{"bglm.n", "1e3", "whole number from 0"},
		{"bglm.intercept", "1", `bglm.intercept = "1"; allowed: true or false`},
		{"bglm.dispersion", "one", `bglm.dispersion = "one"; allowed: a number`},
		{"bglm.hash_bits", "77", "0 to 30"},
		{"bglm.covariance", "full", "no column covariance"},
		{"bglm.covariance", "wide", `"wide"; allowed: "diagonal", "full" or "lowrank"`},
		{"bglm.covariance", "lowrank", "bglm.rank is missing"},
		{"bglm.prior_variance", "NaN", "default prior"},
		{"bglm.family", "bernouli", "the nearest is"},
		{"bglm.status", "", "bglm.status is missing"},
	} {
		var keys, values []string
		for i, k := range full.Keys() {
			if k != c.key {
				keys, values = append(keys, k), append(values, full.Values()[i])
			}
		}
		if c.value != "" {
			keys, values = append(keys, c.key), append(values, c.value)
		}
		m := arrow.NewMetadata(keys, values)
		_, err := ReadFit(tableOf(t, &m, "feature", u, `["a"]`, "mean", d, `[1]`, "variance", d, `[1]`), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.key, err, c.want)
		}
		if (c.value == "4") != errors.Is(err, ErrVersion) {
			t.Errorf("%s: is ErrVersion: %v", c.key, errors.Is(err, ErrVersion))
		}
	}
}

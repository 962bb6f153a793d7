package rules

import (
	"go/parser"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Groups of packages that rows of the table name together. Each may import those
// before it.
const (
	// ground knows nothing of models.
	ground = "kernels/special kernels/stop kernels/memory kernels/argument kernels/internal/near kernels/kerneltest "
	// algebra is numbers and matrices, and what a likelihood is.
	algebra = ground + "kernels/dense kernels/gauss kernels/lik kernels/arrowhead kernels/design "
	// model is what every engine works with.
	model = algebra + "kernels kernels/internal/... kernels/option kernels/stream kernels/predict "
)

// directions says what the packages of a pattern may import of this module; the first
// row that matches counts. A pattern ends in /* for the packages of a folder, and in
// /... for all below it.
var directions = []struct{ pattern, may string }{
	{"kernels/special", ""},
	{"kernels/stop", "kernels/memory"},
	{"kernels/memory", ""},
	{"kernels/argument", "kernels/internal/near"},
	{"kernels/kerneltest", ""},
	{"kernels/internal/near", ""},
	{"kernels/dense", ground},
	{"kernels/gauss", ground + "kernels/dense"},
	{"kernels/lik", ground + "kernels/dense"},
	{"kernels/arrowhead", ground + "kernels/dense kernels/gauss kernels/lik"},
	{"kernels/design", ground + "kernels/dense kernels/gauss kernels/lik"},
	{"kernels", algebra},
	{"kernels/internal/wire", "kernels kernels/internal/tally"},
	{"kernels/internal/*", algebra + "kernels"},
	{"kernels/stream", algebra + "kernels"},
	{"kernels/predict", algebra + "kernels"},
	{"kernels/option", algebra + "kernels kernels/internal/... kernels/predict"},
	{"kernels/fitlayout", algebra + "kernels"},
	{"kernels/rows", model},
	{"kernels/kerneltest/*", model},
	{"kernels/engine", "kernels kernels/..."},
	{"kernels/score", "kernels kernels/..."},
	{"kernels/answer", model + "kernels/metric kernels/softmax"}, // whose Scorer is that of classes
	{"kernels/*", model + "kernels/lowrank"},                     // an engine; ep and hmc build on the low rank

	{"cmd/chart", ""},
	{"sql", ""},
	{"arrowio", "kernels kernels/..."},
	{"arrowio/*", "arrowio kernels kernels/..."},

	{"udf/internal/capi", "kernels/memory"}, // the only package with C
	{"udf", "udf/internal/... sql kernels kernels/..."},
	{"udf/...", "udf udf/bench sql kernels kernels/..."},

	{"cmd/internal/quote", ""},
	{"cmd/internal/rules", ""},
	{"cmd/internal/formula", "cmd/internal/quote"},
	{"cmd/internal/shell", "kernels/lik sql udf"},
	{"cmd/internal/cli", "cmd/internal/shell"},
	{"cmd/internal/page", "cmd/chart cmd/internal/shell"},
	{"cmd/internal/files", "cmd/internal/shell"},
	{"cmd/internal/duck", "cmd/internal/cli cmd/internal/files cmd/internal/quote cmd/internal/shell udf"},
	{"cmd/internal/job", "cmd/internal/cli cmd/internal/duck cmd/internal/files cmd/internal/formula cmd/internal/quote arrowio arrowio/... kernels kernels/..."},
	{"cmd/internal/fitstore", "cmd/internal/cli cmd/internal/duck cmd/internal/files cmd/internal/job cmd/internal/quote cmd/internal/shell arrowio arrowio/... kernels kernels/..."},
	{"cmd/bglm", "cmd/internal/... cmd/chart arrowio arrowio/... kernels kernels/... udf"},
	{"cmd/extension", "udf udf/internal/capi"},
	{"cmd/*", ""},
	{"docs/reproduce", "kernels kernels/... udf"},
	{"docs/newcomer", "kernels kernels/... udf"},
	{"docs/scale", "kernels kernels/..."},
	{"docs/examples/*", "kernels kernels/... arrowio"},
}

// foreign says which modules of others the packages of a pattern may import; the first
// row that matches counts, and standard packages are everybody's. C is not: only
// packages with "C" in their row import it.
var foreign = []struct{ pattern, may string }{
	{"kernels", "gonum.org/v1/gonum/..."},
	{"kernels/...", "gonum.org/v1/gonum/... golang.org/x/sys/cpu"},
	{"cmd/chart", "golang.org/x/image/..."},
	{"sql", ""},
	{"arrowio/duckdb", "github.com/duckdb/... github.com/apache/arrow-go/v18/..."},
	{"arrowio", "github.com/apache/arrow-go/v18/... github.com/klauspost/compress/zstd"}, // whose codec Parquet has with a bound
	{"arrowio/...", "github.com/apache/arrow-go/v18/... github.com/google/flatbuffers/..."},
	{"udf/internal/capi", "C github.com/duckdb/duckdb-go-bindings github.com/duckdb/duckdb-go-bindings/..."},
	{"udf", ""},
	{"cmd/extension", "C"},
	{"udf/...", "..."},
	{"cmd/...", "..."},
	{"docs/...", "..."},
}

// idle are the rows of a table that are the first to match for no package.
func idle(table []struct{ pattern, may string }, packages []string) (out []string) {
	used := make([]bool, len(table))
	for _, pkg := range packages {
		if i := slices.IndexFunc(table, func(r struct{ pattern, may string }) bool { return matches(r.pattern, pkg) }); i >= 0 {
			used[i] = true
		}
	}
	for i, r := range table {
		if !used[i] {
			out = append(out, r.pattern)
		}
	}
	return out
}

func matches(pattern, pkg string) bool {
	switch {
	case pattern == "...":
		return true
	case strings.HasSuffix(pattern, "/..."):
		return strings.HasPrefix(pkg, strings.TrimSuffix(pattern, "..."))
	case strings.HasSuffix(pattern, "/*"):
		rest, ok := strings.CutPrefix(pkg, strings.TrimSuffix(pattern, "*"))
		return ok && !strings.Contains(rest, "/")
	}
	return pattern == pkg
}

// allowed finds the row of a package; found is false where no row matches it.
func allowed(table []struct{ pattern, may string }, from, to string) (ok, found bool) {
	for _, r := range table {
		if matches(r.pattern, from) {
			return slices.ContainsFunc(strings.Fields(r.may), func(p string) bool { return matches(p, to) }), true
		}
	}
	return false, false
}

// Imports run one way. Tests may import against it, but those of the kernels stay as pure as
// these: they never import udf, arrowio, a driver or C.
func TestImportDirections(t *testing.T) {
	set, files := source(t, parser.ImportsOnly)
	var packages []string
	for _, f := range files {
		packages = append(packages, f.dir)
	}
	for _, table := range [][]struct{ pattern, may string }{directions, foreign} {
		for _, pattern := range idle(table, packages) {
			t.Errorf("the row of %s is that of no package", pattern)
		}
	}
	for _, f := range files {
		if _, found := allowed(directions, f.dir, ""); !found {
			t.Errorf("package %s is not in the table of directions", f.dir)
			continue
		}
		for _, spec := range f.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			own, ours := strings.CutPrefix(to, module)
			first, _, _ := strings.Cut(to, "/")
			kernels := matches("kernels/...", f.dir+"/")
			ok := true
			switch {
			case f.test && kernels:
				ok = to != "C" && !strings.HasPrefix(to, "github.com/duckdb/") && (!ours || strings.HasPrefix(own+"/", "kernels/"))
			case f.test:
				ok = to != "C"
			case ours:
				ok, _ = allowed(directions, f.dir, own)
			case to == "C" || strings.Contains(first, "."):
				ok, _ = allowed(foreign, f.dir, to)
				// "..." is every module, but not C.
				ok = ok && (to != "C" || f.dir == "udf/internal/capi" || f.dir == "cmd/extension")
			}
			if !ok {
				t.Errorf("%s: %s imports %s, which the table does not allow", set.Position(spec.Pos()), f.dir, to)
			}
		}
	}
}

// The table itself points one way.
func TestDirectionsAreUseful(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"kernels/adf", "kernels/lik", true}, {"kernels/adf", "udf", false}, {"kernels/adf", "arrowio", false}, {"kernels/adf", "kernels/engine", false}, {"kernels/adf", "kernels/rows", false},
		{"kernels/lik", "kernels", false}, {"kernels/gauss", "kernels/lik", false}, {"kernels", "kernels/adf", false}, {"kernels/anything", "kernels/ep", false},
		{"cmd/internal/job", "cmd/bglm", false}, {"cmd/internal/shell", "cmd/internal/cli", false}, {"arrowio", "udf", false}, {"udf", "arrowio", false}, {"udf/internal/capi", "udf", false},
	} {
		if ok, found := allowed(directions, c.from, c.to); ok != c.want || !found {
			t.Errorf("%s imports %s: %v, want %v", c.from, c.to, ok, c.want)
		}
	}
	if got := idle([]struct{ pattern, may string }{{"kernels/*", ""}, {"kernels/adf", ""}, {"gone", ""}}, []string{"kernels/adf"}); !slices.Equal(got, []string{"kernels/adf", "gone"}) {
		t.Errorf("rows of no package: %v", got)
	}
	if ok, _ := allowed(foreign, "kernels/adf", "github.com/duckdb/duckdb-go/v2"); ok {
		t.Error("kernels may import a driver")
	}
}

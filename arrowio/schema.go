package arrowio

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// SchemaVersion is the value of the metadata key bglm.schema.
const SchemaVersion = "1"

// Names of the columns.
const (
	Feature  = "feature"
	Mean     = "mean"
	Variance = "variance"
)

const prefix = "bglm."

// ErrVersion reports a table written under another version of the schema.
var ErrVersion = errors.New("unknown version of the belief table")

// Options say what a table without bglm's metadata is, and bound what is read.
// nil is the default. A table with the metadata speaks for itself: only
// MaxFeatures counts there.
type Options struct {
	Family, Link string         // default: logit, or the family of the link
	Shape        float64        // default NaN or the family's; 0 is the default too
	Dispersion   float64        // default 1; 0 is the default too
	Intercept    *bool          // default: whether the table has a feature (Intercept)
	Prior        *kernels.Prior // of features without belief; default kernels.DefaultPrior
	MaxFeatures  int            // more rows are an error; default 50,000,000
}

func (o *Options) maxFeatures() int {
	if o == nil || o.MaxFeatures <= 0 {
		return 50_000_000
	}
	return o.MaxFeatures
}

var fields = []arrow.Field{
	{Name: Feature, Type: arrow.BinaryTypes.String},
	{Name: Mean, Type: arrow.PrimitiveTypes.Float64},
	{Name: Variance, Type: arrow.PrimitiveTypes.Float64},
}

// BeliefSchema is the schema of a belief table with the metadata of f; nil gives
// the bare columns.
func BeliefSchema(f *kernels.Fit) *arrow.Schema {
	if f == nil {
		return arrow.NewSchema(fields, nil)
	}
	var keys, values []string
	put := func(k, v string) { keys, values = append(keys, prefix+k), append(values, v) }
	num := func(k string, v float64) { put(k, strconv.FormatFloat(v, 'g', -1, 64)) }
	put("schema", SchemaVersion)
	put("method", f.Method)
	put("family", f.Family)
	put("link", f.Link)
	if !math.IsNaN(f.Shape) {
		num("shape", f.Shape)
	}
	num("dispersion", f.Dispersion)
	put("intercept", strconv.FormatBool(f.Intercept))
	if f.HashBits > 0 {
		put("hash_bits", strconv.Itoa(f.HashBits))
	}
	num("prior_mean", f.Prior.Mean)
	num("prior_variance", f.Prior.Variance)
	num("prior_intercept_variance", f.Prior.InterceptVariance)
	if !math.IsNaN(f.Time) {
		num("time", f.Time)
	}
	put("covariance", "diagonal")
	put("n", strconv.FormatInt(f.N, 10))
	put("n_skipped", strconv.FormatInt(f.Skipped, 10))
	num("log_evidence", f.LogEvidence)
	put("iterations", strconv.Itoa(f.Iterations))
	put("converged", strconv.FormatBool(f.Converged))
	put("status", f.Status)
	m := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(fields, &m)
}

// metaReader decodes metadata and keeps the first error.
type metaReader struct {
	kv  map[string]string
	err error
}

func newMetaReader(keys, values []string) *metaReader {
	r := &metaReader{kv: map[string]string{}}
	for i, k := range keys {
		k, ok := strings.CutPrefix(k, prefix)
		if !ok {
			continue
		}
		if old, twice := r.kv[k]; twice && old != values[i] && r.err == nil {
			r.err = fmt.Errorf("metadata %s%s is there twice, as %.40q and %.40q", prefix, k, old, values[i])
		}
		r.kv[k] = values[i]
	}
	return r
}

func (r *metaReader) bad(key, allowed string) {
	if r.err == nil {
		r.err = fmt.Errorf("metadata %s%s = %.40q; allowed: %s", prefix, key, r.kv[key], allowed)
	}
}

func (r *metaReader) text(key string) string {
	v, ok := r.kv[key]
	if !ok && r.err == nil {
		r.err = fmt.Errorf("metadata %s%s is missing; a table with %sschema has it", prefix, key, prefix)
	}
	return v
}

func parse[T any](r *metaReader, key, allowed string, f func(string) (T, error)) (v T) {
	s := r.text(key)
	if r.err != nil {
		return v
	}
	v, err := f(s)
	if err != nil {
		r.bad(key, allowed)
	}
	return v
}

func (r *metaReader) float(key string) float64 {
	return parse(r, key, "a number", func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
}

// optional is NaN where the key is missing.
func (r *metaReader) optional(key string) float64 {
	if _, ok := r.kv[key]; !ok {
		return math.NaN()
	}
	return r.float(key)
}

func (r *metaReader) integer(key string, max int64) int64 {
	allowed := fmt.Sprintf("a whole number from 0 to %d", max)
	v := parse(r, key, allowed, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	if v < 0 || v > max {
		r.bad(key, allowed)
	}
	return v
}

func (r *metaReader) bool(key string) bool {
	return parse(r, key, "true or false", func(s string) (bool, error) {
		if s != "true" && s != "false" {
			return false, strconv.ErrSyntax
		}
		return s == "true", nil
	})
}

// readMeta is the fit without beliefs that the metadata describe, or nil if
// they do not hold bglm.schema.
func readMeta(keys, values []string) (*kernels.Fit, error) {
	r := newMetaReader(keys, values)
	v, ours := r.kv["schema"]
	if !ours {
		return nil, nil
	}
	if v != SchemaVersion {
		return nil, fmt.Errorf("%w: metadata %sschema = %.40q; allowed: %q", ErrVersion, prefix, v, SchemaVersion)
	}
	f := &kernels.Fit{
		Method: r.text("method"), Family: r.text("family"), Link: r.text("link"),
		Shape: r.optional("shape"), Dispersion: r.float("dispersion"),
		Intercept: r.bool("intercept"),
		Prior: kernels.Prior{Mean: r.float("prior_mean"), Variance: r.float("prior_variance"),
			InterceptVariance: r.float("prior_intercept_variance")},
		Time: r.optional("time"),
		N:    r.integer("n", math.MaxInt64), Skipped: r.integer("n_skipped", math.MaxInt64),
		LogEvidence: r.float("log_evidence"),
		Iterations:  int(r.integer("iterations", math.MaxInt32)),
		Converged:   r.bool("converged"), Status: r.text("status"),
	}
	if _, ok := r.kv["hash_bits"]; ok {
		f.HashBits = int(r.integer("hash_bits", maxHashBits))
	}
	if k := r.text("covariance"); r.err == nil && k != "diagonal" {
		r.bad("covariance", `"diagonal"`)
	}
	if r.err != nil {
		return nil, r.err
	}
	return f, checkHead(f)
}

const maxHashBits = 30

// checkHead reports what no reader should accept and no writer should write.
func checkHead(f *kernels.Fit) error {
	if f.HashBits < 0 || f.HashBits > maxHashBits {
		return fmt.Errorf("hash_bits = %d; allowed: 0 (none) to %d", f.HashBits, maxHashBits)
	}
	for _, w := range []kernels.Weight{{Mean: f.Prior.Mean, Variance: f.Prior.Variance}, {Mean: f.Prior.Mean, Variance: f.Prior.InterceptVariance}} {
		if err := kernels.CheckWeight(w); err != nil {
			return fmt.Errorf("the default prior: %w", err)
		}
	}
	if math.IsInf(f.Time, 0) {
		return fmt.Errorf("time = %v; allowed: a finite number or none", f.Time)
	}
	if f.N < 0 || f.Skipped < 0 || f.Iterations < 0 || f.Iterations > math.MaxInt32 {
		return fmt.Errorf("n = %d, n_skipped = %d, iterations = %d; allowed: whole numbers >= 0", f.N, f.Skipped, f.Iterations)
	}
	if f.Family == "" || f.Link == "" {
		return fmt.Errorf("family = %q, link = %q; both are needed", f.Family, f.Link)
	}
	for _, s := range []string{f.Method, f.Status} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("method or status %.40q is not valid UTF-8", s)
		}
	}
	_, err := lik.New(f.Family, f.Link, lik.Params{Dispersion: f.Dispersion, Shape: f.Shape})
	return err
}

// plain is the head of a fit for beliefs from a table without metadata.
func plain(o *Options, beliefs []kernels.Belief) (*kernels.Fit, error) {
	if o == nil {
		o = &Options{}
	}
	f := &kernels.Fit{Method: "beliefs", Shape: math.NaN(), Dispersion: 1, Prior: kernels.DefaultPrior,
		Time: math.NaN(), Converged: true, Status: "ok"}
	if o.Shape != 0 {
		f.Shape = o.Shape
	}
	if o.Dispersion != 0 {
		f.Dispersion = o.Dispersion
	}
	if o.Prior != nil {
		f.Prior = *o.Prior
	}
	if o.Intercept != nil {
		f.Intercept = *o.Intercept
	} else {
		f.Intercept = len(beliefs) > 0 && beliefs[0].Feature == kernels.Intercept
	}
	l, err := lik.New(o.Family, o.Link, lik.Params{Dispersion: f.Dispersion, Shape: f.Shape})
	if err != nil {
		return nil, err
	}
	f.Family, f.Link = l.Family(), l.Link()
	return f, checkHead(f)
}

// table gathers the rows of a belief table.
type table struct {
	beliefs []kernels.Belief
	max     int
	bytes   int64 // of names
	names   int64 // limit of bytes; 0 = none
}

func (t *table) room(n int) error {
	if len(t.beliefs)+n > t.max {
		return fmt.Errorf("more than %d rows; allowed: as many as MaxFeatures", t.max)
	}
	return nil
}

// add takes a row. name is copied by the caller.
func (t *table) add(name string, w kernels.Weight) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("column feature, row %d: %.40q is not valid UTF-8", len(t.beliefs)+1, name)
	}
	if err := kernels.CheckWeight(w); err != nil {
		return fmt.Errorf("row %d, feature %.100q: column %w", len(t.beliefs)+1, name, err)
	}
	t.beliefs = append(t.beliefs, kernels.Belief{Feature: name, Weight: w})
	return nil
}

func (t *table) null(column string, row int) error {
	return fmt.Errorf("column %s, row %d: NULL; each belief needs a feature, a mean and a variance", column, row+1)
}

// inOrder sorts beliefs unless they are sorted, and refuses a feature twice.
func inOrder(b []kernels.Belief) error {
	cmp := func(x, y kernels.Belief) int { return kernels.CompareNames(x.Feature, y.Feature) }
	if !slices.IsSortedFunc(b, cmp) {
		slices.SortFunc(b, cmp)
	}
	for i := 1; i < len(b); i++ {
		if b[i-1].Feature == b[i].Feature {
			return fmt.Errorf("column feature: %.100q is there more than once; allowed: one belief a feature", b[i].Feature)
		}
	}
	return nil
}

// fit joins the rows with the head the metadata describe (nil: none).
func (t *table) fit(head *kernels.Fit, o *Options) (*kernels.Fit, error) {
	if err := inOrder(t.beliefs); err != nil {
		return nil, err
	}
	if head == nil {
		var err error
		if head, err = plain(o, t.beliefs); err != nil {
			return nil, err
		}
	}
	head.Beliefs = t.beliefs
	return head, nil
}

// beliefsToWrite are f's beliefs checked and in order; f is not changed.
func beliefsToWrite(f *kernels.Fit) ([]kernels.Belief, error) {
	if err := checkHead(f); err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	b := f.Beliefs
	for i := range b {
		if !utf8.ValidString(b[i].Feature) {
			return nil, fmt.Errorf("feature %.40q is not valid UTF-8", b[i].Feature)
		}
	}
	if !slices.IsSortedFunc(b, func(x, y kernels.Belief) int { return kernels.CompareNames(x.Feature, y.Feature) }) {
		b = slices.Clone(b)
	}
	return b, inOrder(b)
}

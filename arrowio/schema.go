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
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
)

// SchemaVersion is the newest value of the metadata key bglm.schema. Versions 1 and 2 had the rest
// of the fit in the metadata, and one fit per table; they remain readable.
const SchemaVersion = "3"

// Names of the columns.
const (
	Class         = "class" // softmax only
	Feature       = "feature"
	Mean          = "mean"
	Variance      = "variance"
	CovarianceRow = "covariance" // full and low-rank covariances only
	Rest          = "fit"        // in the first row of each fit: the rest of it, as JSON
)

const prefix = "bglm."

// ErrVersion reports a table written under another version of the schema.
var ErrVersion = errors.New("unknown version of the belief table")

// Options describe the model of a table without bglm's metadata, and limit what is read. nil is the
// default. A table with the metadata describes itself: only MaxFeatures applies to it.
type Options struct {
	Family, Link string         // default: logit, or the family of the link
	Shape        float64        // default NaN or the family's; 0 is the default too
	Dispersion   float64        // default 1; 0 is the default too
	Intercept    *bool          // default: whether the table has a feature (Intercept)
	Prior        *kernels.Prior // for features without belief; default kernels.DefaultPrior
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

// BeliefSchema is the schema of a belief table of f; nil gives only the basic columns. meta are
// pairs of a key and a value to store in the metadata, under keys with the prefix bglm.job.: what a
// program wants to find again, such as the formula of the features.
func BeliefSchema(f *kernels.Fit, meta ...string) *arrow.Schema {
	if f == nil {
		return arrow.NewSchema(fields, nil)
	}
	return (&Groups{Fits: []*kernels.Fit{f}}).schema(meta)
}

// schema is the schema of the table of g, with the columns that any of its fits needs.
func (g *Groups) schema(meta []string) *arrow.Schema {
	var out []arrow.Field
	if g.Keys != nil {
		out = slices.Clone(g.Keys.Schema().Fields())
	}
	if g.any(func(f *kernels.Fit) bool { return len(f.Classes) > 0 }) {
		out = append(out, arrow.Field{Name: Class, Type: arrow.BinaryTypes.String})
	}
	first := len(out)
	out = append(out, fields...)
	if g.any(correlated) {
		out = append(out, arrow.Field{Name: CovarianceRow, Type: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float64)})
	}
	if g.any(func(f *kernels.Fit) bool { return len(f.Beliefs) == 0 }) {
		for k := first; k < first+len(fields); k++ {
			out[k].Nullable = true // a fit without beliefs is a row without a belief
		}
	}
	out = append(out, arrow.Field{Name: Rest, Type: arrow.BinaryTypes.String, Nullable: true})
	keys, values := []string{prefix + "schema"}, []string{SchemaVersion}
	for i := 0; i+1 < len(meta); i += 2 {
		keys, values = append(keys, prefix+"job."+meta[i]), append(values, meta[i+1])
	}
	m := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(out, &m)
}

func (g *Groups) any(is func(*kernels.Fit) bool) bool { return slices.ContainsFunc(g.Fits, is) }

func correlated(f *kernels.Fit) bool { return f.Covariance.Form != gauss.Diagonal }

// metaReader decodes metadata and remembers the first error.
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

// optional is the number of a key, NaN if it is missing.
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

// readMeta is the fit without beliefs that the metadata describe, nil if they lack bglm.schema;
// from version 3 on it is in the column Rest instead (rest is true).
func readMeta(keys, values []string) (f *kernels.Fit, rest bool, err error) {
	r := newMetaReader(keys, values)
	v, ours := r.kv["schema"]
	switch v {
	case SchemaVersion:
		return nil, true, r.err
	case "1", "2":
		f, err = r.fit()
		return f, false, err
	}
	if !ours {
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("%w: metadata %sschema = %.40q; allowed: \"1\", \"2\" and %q; a newer bglm may read it", ErrVersion, prefix, v, SchemaVersion)
}

// fit is the fit that metadata of versions 1 and 2 describe.
func (r *metaReader) fit() (*kernels.Fit, error) {
	f := &kernels.Fit{
		Method: r.text("method"), Family: r.text("family"), Link: r.text("link"),
		Shape: r.optional("shape"), Dispersion: r.float("dispersion"),
		Intercept: r.bool("intercept"),
		Prior: kernels.Prior{Mean: r.float("prior_mean"), Variance: r.float("prior_variance"),
			InterceptVariance: r.float("prior_intercept_variance")}.Literal(),
		Time: r.optional("time"),
		N:    r.integer("n", kernels.MaxCount), Skipped: r.integer("n_skipped", kernels.MaxCount),
		LogEvidence: r.float("log_evidence"),
		Iterations:  int(r.integer("iterations", math.MaxInt32)),
		Converged:   r.bool("converged"), Status: r.text("status"),
	}
	if _, ok := r.kv["hash_bits"]; ok {
		f.HashBits = int(r.integer("hash_bits", kernels.MaxHashBits))
	}
	switch r.text("covariance") {
	case "diagonal":
	case "full":
		f.Covariance.Form = gauss.Full
	case "lowrank":
		f.Covariance.Form, f.Covariance.Rank = gauss.LowRank, int(r.integer("rank", kernels.MaxRank))
	default:
		r.bad("covariance", `"diagonal", "full" or "lowrank"`)
	}
	if r.err != nil {
		return nil, r.err
	}
	return f, f.ValidateHead()
}

// extra returns the pairs that a writer stored beside the fit's own metadata.
func extra(keys, values []string) map[string]string {
	out := map[string]string{}
	for i, k := range keys {
		if k, ok := strings.CutPrefix(k, prefix+"job."); ok {
			out[k] = values[i]
		}
	}
	return out
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
		f.Prior = o.Prior.Complete()
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
	f.SetLikelihood(l)
	return f, f.ValidateHead()
}

// table collects the rows of a belief table.
type table struct {
	beliefs []kernels.Belief
	class   []string  // one per belief; nil without classes
	cov     []float64 // the rows of the covariance, one after the other
	rows    []int     // end of each row in cov
	max     int
	bytes   int64 // total length of the names
	names   int64 // limit of bytes; 0 = none

	withRest bool         // the fit is in the column Rest
	head     *kernels.Fit // the fit read from it
	empty    bool         // the row of a fit without beliefs was read
}

// rest decodes the text of the column Rest in a row.
func (t *table) rest(text string, row int) (err error) {
	if t.head != nil {
		return fmt.Errorf("column %s, row %d: another fit; allowed here: a table of one fit, without groups", Rest, row+1)
	}
	if row > 0 {
		return fmt.Errorf("column %s: NULL in the first row, where the fit begins", Rest)
	}
	if t.head, err = decodeHead(text); err != nil {
		return fmt.Errorf("column %s, row %d: %w", Rest, row+1, err)
	}
	return nil
}

func (t *table) room(n int) error {
	if len(t.beliefs)+n > t.max {
		return fmt.Errorf("more than %d rows; allowed: as many as MaxFeatures", t.max)
	}
	return nil
}

// add appends a row. The caller has copied name.
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

// inOrder sorts beliefs unless they are sorted, and rejects a feature that occurs twice.
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

// fit joins the rows with the head that the metadata describe (nil: none).
func (t *table) fit(head *kernels.Fit, o *Options) (*kernels.Fit, error) {
	var err error
	var classes []string
	if t.withRest {
		if head = t.head; head == nil {
			return nil, fmt.Errorf("column %s: NULL in the first row, where the fit begins", Rest)
		}
	}
	if t.empty && len(t.beliefs) > 0 {
		return nil, t.null(Feature, 0)
	}
	switch {
	case len(t.class) > 0:
		classes, err = t.blocks()
	case head != nil && head.Covariance.Form != gauss.Diagonal:
		if err = ordered(t.beliefs); err != nil {
			err = fmt.Errorf("%w: the covariance belongs to the order in which it was written", err)
		}
	default:
		err = inOrder(t.beliefs)
	}
	if err != nil {
		return nil, err
	}
	if head == nil {
		if head, err = plain(o, t.beliefs); err != nil {
			return nil, err
		}
	}
	head.Beliefs, head.Classes = t.beliefs, classes
	if c := &head.Covariance; c.Form != gauss.Diagonal {
		if len(t.rows) != len(t.beliefs) {
			return nil, fmt.Errorf("no column %s; metadata %scovariance = %q needs it", CovarianceRow, prefix, c.Form)
		}
		for k, lo := 0, 0; k < len(t.rows); k++ {
			want := c.RowLen(k)
			if n := t.rows[k] - lo; n != want {
				return nil, fmt.Errorf("column %s, row %d: %d values; allowed for kind %s: %d", CovarianceRow, k+1, n, c.Form, want)
			}
			lo = t.rows[k]
		}
		c.Values = t.cov
	}
	return head, head.Validate()
}

// ordered reports beliefs out of order or a feature that occurs twice.
func ordered(b []kernels.Belief) error {
	for i := 1; i < len(b); i++ {
		if kernels.CompareNames(b[i-1].Feature, b[i].Feature) >= 0 {
			return fmt.Errorf("column feature, row %d: %.100q after %.100q is out of order", i+1, b[i].Feature, b[i-1].Feature)
		}
	}
	return nil
}

// blocks lists the classes of a table that has them: each class has the same features, one class
// after another.
func (t *table) blocks() ([]string, error) {
	var classes []string
	for i, c := range t.class {
		if i == 0 || c != t.class[i-1] {
			if slices.Contains(classes, c) {
				return nil, fmt.Errorf("column class, row %d: class %.100q is there in more than one block", i+1, c)
			}
			if classes = append(classes, c); len(classes) > maxClasses {
				return nil, fmt.Errorf("column class: more than %d classes", maxClasses)
			}
		}
	}
	d := len(t.beliefs) / len(classes)
	if d*len(classes) != len(t.beliefs) {
		return nil, fmt.Errorf("column class: %d rows for %d classes; each class needs all features", len(t.beliefs), len(classes))
	}
	for i := range t.beliefs {
		if t.class[i] != classes[i/d] {
			return nil, fmt.Errorf("row %d: class %.60q, feature %.60q; each class needs the same features in the same order", i+1, t.class[i], t.beliefs[i].Feature)
		}
	}
	return classes, nil
}

const maxClasses = 10_000

// beliefsToWrite returns f's beliefs checked and in order; f is not changed.
func beliefsToWrite(f *kernels.Fit) ([]kernels.Belief, error) {
	g := *f
	if len(g.Classes) == 0 && g.Covariance.Form == gauss.Diagonal {
		if !slices.IsSortedFunc(g.Beliefs, func(x, y kernels.Belief) int { return kernels.CompareNames(x.Feature, y.Feature) }) {
			g.Beliefs = slices.Clone(g.Beliefs)
		}
		if err := inOrder(g.Beliefs); err != nil {
			return nil, err
		}
	}
	return g.Beliefs, g.Validate()
}

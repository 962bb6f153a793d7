// Package fitlayout lists the fields of a FIT once: their names in SQL, their types, which may be
// NULL or missing, and where a kernels.Fit stores them. The SQL type with its writer and reader
// (package udf), the column fit of files (package arrowio, command bglm) and the text of the type
// in the documentation are derived from the list.
//
// A new field is one entry at the end of Fields, one field of kernels.Fit, and a check in
// Fit.Validate if it can be invalid. Types of struct values may only grow at their end, and each
// growth is a new kernels.FitFormat: entries state the first one that has them.
package fitlayout

import (
	"fmt"
	"math"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
)

// Kind is the type of a field.
type Kind uint8

// Kinds, with their SQL types and the Go types that Field.At points to.
const (
	Struct       Kind = iota // STRUCT of Fields
	Text                     // VARCHAR: *string, *gauss.Form by name, or *kernels.ColumnKind
	Real                     // DOUBLE: *float64, NULL is NaN
	Whole                    // INTEGER: *int, NULL is 0
	Count                    // BIGINT: *int64
	Flag                     // BOOLEAN: *bool
	Reals                    // DOUBLE[]: *[]float64
	Beliefs                  // BELIEF[]: *[]kernels.Belief, with the classes of the fit
	Columns                  // STRUCT[] of the package's variable ColumnFields: *[]kernels.FitColumn
	Version                  // INTEGER: a Format
	Correlations             // STRUCT[] of the package's variable CorrelationFields: *[]kernels.Correlation
	Learnt                   // STRUCT[] of the package's variable LearntFields: *[]kernels.Learnt
)

// Format stands for the version of the layout: always written as the current one, and accepted up
// to that when read.
type Format int64

// Field is a field of a struct of T: a value, or a STRUCT of more.
type Field[T any] struct {
	Name   string
	Doc    string
	At     func(*T) any // pointer to the value; nil for a STRUCT
	Fields []Field[T]   // of a STRUCT

	Nullable bool // NULL = none
	Optional bool // may be missing, as in FITs built by hand: Default has its value
	Since    int  // the first layout with the field; 0 means the first of all
}

// Kind is the type of the field.
func (f *Field[T]) Kind() Kind {
	if f.At == nil {
		return Struct
	}
	var none T // nothing is stored: the pointer's type suffices
	switch v := f.At(&none).(type) {
	case *string, *gauss.Form, *kernels.ColumnKind:
		return Text
	case *float64:
		return Real
	case *int:
		return Whole
	case *int64:
		return Count
	case *bool:
		return Flag
	case *[]float64:
		return Reals
	case *[]kernels.Belief:
		return Beliefs
	case *[]kernels.FitColumn:
		return Columns
	case *[]kernels.Correlation:
		return Correlations
	case *[]kernels.Learnt:
		return Learnt
	case Format:
		return Version
	default:
		panic(fmt.Sprintf("fitlayout: field %s is %T", f.Name, v))
	}
}

// InColumns reports whether files store the field in columns of its own, one row per belief, and
// not with the rest of the FIT.
func (f *Field[T]) InColumns() bool {
	if f.At == nil {
		return false
	}
	k := f.Kind()
	return k == Beliefs || k == Reals
}

type fit = kernels.Fit

// Fields are the fields of a FIT, in order.
var Fields = []Field[fit]{
	{Name: "method", Doc: "the engine; 'merge' for a merged fit, 'beliefs' for a fit made of beliefs", At: func(f *fit) any { return &f.Method }, Optional: true},
	{Name: "family", Doc: "distribution of the responses", At: func(f *fit) any { return &f.Family }},
	{Name: "link", At: func(f *fit) any { return &f.Link }},
	{Name: "shape", Doc: "the family's additional parameter: size of negbinomial, shape of gamma, degrees of freedom of studentt", At: func(f *fit) any { return &f.Shape }, Optional: true, Nullable: true},
	{Name: "dispersion", Doc: "variance of gaussian responses, squared scale of studentt, 1 for other families", At: func(f *fit) any { return &f.Dispersion }, Optional: true},
	{Name: "intercept", Doc: "whether the model has an intercept, the feature (Intercept)", At: func(f *fit) any { return &f.Intercept }},
	{Name: "hash_bits", Doc: "if features are hashed, they have 2^hash_bits slots", At: func(f *fit) any { return &f.HashBits }, Optional: true, Nullable: true},
	{Name: "prior", Doc: "prior of features that have no belief", Fields: []Field[fit]{
		{Name: "mean", At: func(f *fit) any { return &f.Prior.Mean }},
		{Name: "variance", At: func(f *fit) any { return &f.Prior.Variance }},
		{Name: "intercept_variance", At: func(f *fit) any { return &f.Prior.InterceptVariance }},
	}},
	{Name: "time", Doc: "time at which the beliefs are valid", At: func(f *fit) any { return &f.Time }, Optional: true, Nullable: true},
	{Name: "beliefs", Doc: "one belief per feature, in belief order: (Intercept), then positions by number, then names in byte order. `softmax` adds class VARCHAR and lists one class after the other", At: func(f *fit) any { return &f.Beliefs }},
	{Name: "covariance", Doc: "kind is 'diagonal', 'full' (values hold the lower Cholesky factor, row by row), 'lowrank' (for each belief, d and its row of F: the covariance is diag(d) - F F') or 'arrowhead' (docs/notation.md)", Optional: true, Fields: []Field[fit]{
		{Name: "kind", At: func(f *fit) any { return &f.Covariance.Form }},
		{Name: "rank", At: func(f *fit) any { return &f.Covariance.Rank }},
		{Name: "values", At: func(f *fit) any { return &f.Covariance.Values }},
	}},
	{Name: "n", Doc: "number of rows that the fit has learnt from", At: func(f *fit) any { return &f.N }, Optional: true},
	{Name: "n_skipped", Doc: "number of rows left out", At: func(f *fit) any { return &f.Skipped }, Optional: true},
	{Name: "log_evidence", Doc: "log marginal likelihood, in nats", At: func(f *fit) any { return &f.LogEvidence }, Optional: true, Nullable: true},
	{Name: "iterations", At: func(f *fit) any { return &f.Iterations }, Optional: true},
	{Name: "converged", At: func(f *fit) any { return &f.Converged }, Optional: true},
	{Name: "status", Doc: "'ok', or what to watch out for", At: func(f *fit) any { return &f.Status }, Optional: true},
	{Name: "columns", Doc: "the columns of a STRUCT or list. kind is 'number', 'levels' or 'features' (a map or list of features among the columns); interactions add the kinds and names of their columns, as in 'levels of number x, levels g'. n is the number of rows, missing the number of these without a value. center and scale are those of a standardised number; for levels whose variance was learnt, they are the posterior mean and standard deviation of its square root. variance is the prior variance of the column's weights", At: func(f *fit) any { return &f.Columns }, Optional: true, Nullable: true, Since: 2},
	{Name: "format", Doc: "version of this layout; FITs of all earlier versions can be read", At: func(*fit) any { return Format(kernels.FitFormat) }, Optional: true, Nullable: true, Since: 2},
	{Name: "correlations", Doc: "for two columns of levels with correlated weights: posterior mean and standard deviation of the correlation between the weights of the same level, and their covariance for an unseen level", At: func(f *fit) any { return &f.Correlations }, Optional: true, Nullable: true, Since: 3},
	{Name: "learnt", Doc: "learnt parameters of the responses. 'deviation' has the posterior mean and standard deviation of the square root of the dispersion, 'shape' those of the shape. 'foretold', if present, has the factors by which predictions multiply the mean and the variance of the linear predictor. Other names are what a stream needs to continue", At: func(f *fit) any { return &f.Learnt }, Optional: true, Nullable: true, Since: 4},
}

type column = kernels.FitColumn

// ColumnFields are the fields of an entry of columns.
var ColumnFields = []Field[column]{
	{Name: "name", At: func(c *column) any { return &c.Name }},
	{Name: "kind", At: func(c *column) any { return (*kernels.ColumnKind)(c) }},
	{Name: "n", At: func(c *column) any { return &c.N }},
	{Name: "missing", At: func(c *column) any { return &c.Missing }},
	{Name: "center", At: func(c *column) any { return &c.Center }, Nullable: true},
	{Name: "scale", At: func(c *column) any { return &c.Scale }, Nullable: true},
	{Name: "variance", At: func(c *column) any { return &c.Variance }, Nullable: true},
}

type correlation = kernels.Correlation

// CorrelationFields are the fields of an entry of correlations.
var CorrelationFields = []Field[correlation]{
	{Name: "first", At: func(c *correlation) any { return &c.A }},
	{Name: "second", At: func(c *correlation) any { return &c.B }},
	{Name: "mean", At: func(c *correlation) any { return &c.Mean }},
	{Name: "sd", At: func(c *correlation) any { return &c.SD }, Nullable: true},
	{Name: "covariance", At: func(c *correlation) any { return &c.Covariance }},
}

type learnt = kernels.Learnt

// LearntFields are the fields of an entry of learnt.
var LearntFields = []Field[learnt]{
	{Name: "name", At: func(l *learnt) any { return &l.Name }},
	{Name: "mean", At: func(l *learnt) any { return &l.Mean }},
	{Name: "sd", At: func(l *learnt) any { return &l.SD }, Nullable: true},
}

// Default has the values of missing fields: a diagonal covariance, no rows seen, a dispersion of 1.
func Default() kernels.Fit {
	nan := math.NaN()
	return kernels.Fit{Shape: nan, Dispersion: 1, Time: nan, Iterations: 1, Converged: true, Status: "ok"}
}

// Walk visits the fields that a layout has, STRUCTs before their fields; path joins the names with
// dots. It stops when visit returns false.
func Walk[T any](fields []Field[T], layout int, visit func(path string, f *Field[T]) bool) bool {
	return walk(fields, layout, "", visit)
}

func walk[T any](fields []Field[T], layout int, under string, visit func(path string, f *Field[T]) bool) bool {
	for k := range fields {
		f := &fields[k]
		if f.Since > layout {
			continue
		}
		if !visit(under+f.Name, f) || !walk(f.Fields, layout, under+f.Name+".", visit) {
			return false
		}
	}
	return true
}

// SQL is the type of a FIT in a layout, in SQL; with classes for bglm_softmax.
func SQL(layout int, classes bool) string {
	belief := "STRUCT(feature VARCHAR, mean DOUBLE, variance DOUBLE"
	if classes {
		belief += ", class VARCHAR"
	}
	return structSQL(Fields, layout, belief+")")
}

func structSQL[T any](fields []Field[T], layout int, belief string) string {
	var parts []string
	for k := range fields {
		f := &fields[k]
		if f.Since > layout {
			continue
		}
		parts = append(parts, quote(f.Name)+" "+f.sql(layout, belief))
	}
	return "STRUCT(" + strings.Join(parts, ", ") + ")"
}

// SQL is the type of the field in the newest layout.
func (f *Field[T]) SQL() string { return f.sql(kernels.FitFormat, "BELIEF") }

func (f *Field[T]) sql(layout int, belief string) string {
	switch f.Kind() {
	case Struct:
		return structSQL(f.Fields, layout, belief)
	case Text:
		return "VARCHAR"
	case Real:
		return "DOUBLE"
	case Whole, Version:
		return "INTEGER"
	case Count:
		return "BIGINT"
	case Flag:
		return "BOOLEAN"
	case Reals:
		return "DOUBLE[]"
	case Columns:
		return structSQL(ColumnFields, layout, belief) + "[]"
	case Correlations:
		return structSQL(CorrelationFields, layout, belief) + "[]"
	case Learnt:
		return structSQL(LearntFields, layout, belief) + "[]"
	default: // Beliefs
		return belief + "[]"
	}
}

// quote quotes the names of fields that are keywords of SQL.
func quote(name string) string {
	switch name {
	case "time", "values", "columns":
		return `"` + name + `"`
	}
	return name
}

// CheckFormat rejects a FIT with a layout newer than kernels.FitFormat.
func CheckFormat(format int64) error {
	if format > kernels.FitFormat {
		return fmt.Errorf("format = %d, a layout newer than the %d that this version of bglm knows; update bglm to read it", format, kernels.FitFormat)
	}
	if format < 1 {
		return fmt.Errorf("format = %d; allowed: 1 to %d, or none", format, kernels.FitFormat)
	}
	return nil
}

// Package parts is what the workers of a distributed fit run, whatever engine runs them: read parts
// of the rows of Parquet files, summarise those rows in a State of bytes, merge states in any
// order, solve for the fits and write them. It is pure Go and independent of Apache Beam.
package parts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// The methods of a Job.
const (
	Laplace = "laplace" // by passes that add up: the fit of all rows, up to rounding
	EP      = "ep"      // likewise, by expectation propagation with a full covariance
	LowRank = "lowrank" // by passes that each continue from the merged state of the one before
	ADF     = "adf"     // a fit of each part, multiplied with their prior counted once
)

// Job describes a fit to every worker, in JSON.
type Job struct {
	// Files are Parquet files, or glob patterns, under paths that all workers share.
	Files []string
	// SplitRows is the least number of rows in a part of a file, in whole row groups; 0 makes each
	// row group a part.
	SplitRows int64 `json:",omitempty"`

	// The columns, as in arrowio.Job.
	Y                      string
	Features               string     `json:",omitempty"`
	Terms                  [][]string `json:",omitempty"`
	Weight, Offset, Trials string     `json:",omitempty"`
	Group                  []string   `json:",omitempty"`

	Method string // Laplace, EP, LowRank or ADF
	// Options are the options of bglm_newton_state and bglm_adf that do not vary by row, a JSON
	// object; "" for none. The default of standardize is false for ADF: parts standardised by their
	// own rows would differ in the meaning of the prior.
	Options string `json:",omitempty"`
	// From is the path of a belief table in Parquet, "" for none: the first passes expand around
	// its fit of the group, or around its one fit for all groups; ADF continues from its one fit in
	// every part.
	From string `json:",omitempty"`
}

// Check reports a job that cannot run, before it reaches a worker.
func (j *Job) Check() error {
	if len(j.Files) == 0 {
		return errors.New("the job names no files")
	}
	if all := []string{Laplace, EP, LowRank, ADF}; !slices.Contains(all, j.Method) {
		return fmt.Errorf("method: found %q; allowed: %q", j.Method, all)
	}
	if j.Method == LowRank && j.From != "" {
		return fmt.Errorf("from: found %s; passes of lowrank begin with the directions of all rows, not with a fit", j.From)
	}
	from, err := j.from()
	if err != nil {
		return err
	}
	_, err = j.model(from[""])
	return err
}

// method is the one to which the rows of a part are fed.
func (j *Job) method() string {
	if j.Method == ADF {
		return j.Method
	}
	return "newton_state"
}

// from are the fits that the job starts from.
func (j *Job) from() (Fits, error) {
	if j.From == "" {
		return nil, nil
	}
	f, err := ReadFits(context.Background(), j.From, j.Group)
	if err == nil && j.Method == ADF && f[""] == nil {
		return nil, fmt.Errorf("%s has fits by group; allowed for method adf: one fit, which all groups continue", j.From)
	}
	return f, err
}

// settings are the options of the job.
func (j *Job) settings() (*option.Settings, error) {
	given := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(cmp.Or(j.Options, "{}")), &given); err != nil {
		return nil, fmt.Errorf("options: found %.100s; allowed: a JSON object (%w)", j.Options, err)
	}
	if _, ok := given["standardize"]; j.Method == ADF && !ok {
		given["standardize"] = json.RawMessage("false")
	}
	s, err := option.For(j.method()).Without(append(option.RowFields(), "around", "prior", "method")...).Decode(func(yield func(string, option.Source) bool) {
		for _, key := range slices.Sorted(maps.Keys(given)) {
			if !yield(key, option.JSON(given[key], "JSON")) {
				return
			}
		}
	})
	if err == nil && (j.Method == EP || j.Method == LowRank) {
		s.Options.Sites = j.Method
	}
	return s, err
}

// model is the model of the job, expanded around f or, for ADF, continued from it; nil for none.
func (j *Job) model(f *kernels.Fit) (*kernels.Model, error) {
	m, err := engine.Find(j.method())
	if err != nil {
		return nil, err
	}
	s, err := j.settings()
	if err != nil {
		return nil, err
	}
	switch {
	case f == nil:
	case j.Method == ADF:
		if err := s.Continue(f); err != nil {
			return nil, fmt.Errorf("the fit to continue from: %w", err)
		}
	default:
		s.Around = f
	}
	return m.Model(s, false, j.Trials != "")
}

// after is the model of the pass of LowRank after t, which is nil before the first; the model is
// nil if t is done.
func (j *Job) after(t *Iterate) (*kernels.Model, error) {
	if t != nil && t.Done {
		return nil, nil
	}
	m, err := j.model(nil)
	if err == nil && t != nil {
		m.Before = t.best
	}
	return m, err
}

// rows is the job in the form of package arrowio.
func (j *Job) rows(m *kernels.Model, skip bool) arrowio.Job {
	out := arrowio.Job{Y: j.Y, Features: j.Features, Weight: j.Weight, Offset: j.Offset, Trials: j.Trials, Group: j.Group, Method: j.method(), Model: *m, SkipBad: skip}
	for _, t := range j.Terms {
		out.Terms = append(out.Terms, t)
	}
	return out
}

// columns are the names of the columns that rows are read from.
func (j *Job) columns() (out []string) {
	for _, name := range slices.Concat([]string{j.Y, j.Features, j.Weight, j.Offset, j.Trials}, j.Group, slices.Concat(j.Terms...)) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Split is a part of the rows: row groups [First, End) of a file.
type Split struct {
	File       string
	First, End int
	Rows       int64
}

// Splits lists the parts of the job's files, in order.
// Errors: a pattern without files, a file that is not Parquet.
func (j *Job) Splits() (out []Split, err error) {
	for _, pattern := range j.Files {
		names, err := files(pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			rows, err := pqrows.RowGroups(name)
			if err != nil {
				return nil, err
			}
			at := -1
			for g, n := range rows {
				if at < 0 || out[at].Rows >= j.SplitRows {
					at = len(out)
					out = append(out, Split{File: name, First: g})
				}
				out[at].End, out[at].Rows = g+1, out[at].Rows+n
			}
		}
	}
	return out, nil
}

// files lists the files that match a pattern, in the order of their names.
func files(pattern string) ([]string, error) {
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("files %s: %w", pattern, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no file %s", pattern)
	}
	return names, nil
}

// keys are the group columns of groups given by their texts.
func (j *Job) keys(ctx context.Context, keys []string) (*arrowio.Groups, error) {
	g := &arrowio.Groups{}
	if len(j.Group) == 0 {
		return g, nil
	}
	names, err := files(j.Files[0])
	if err != nil {
		return nil, err
	}
	r, err := pqrows.OpenGroups(ctx, names[0], j.Group, 0, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	g.Keys, err = arrowio.GroupKeys(r.Schema(), j.Group, keys)
	return g, err
}

// Meta is what a belief table records about the job, so that bglm predict knows the columns.
func (j *Job) Meta() []string {
	var meta []string
	keep := func(key, value string) {
		if value != "" {
			meta = append(meta, key, value)
		}
	}
	if j.Features != "" {
		keep("y", quoted(j.Y))
		keep("x", quoted(j.Features))
	} else {
		var terms []string
		for _, t := range j.Terms {
			var names []string
			for _, name := range t {
				names = append(names, quoted(name))
			}
			terms = append(terms, strings.Join(names, ":"))
		}
		keep("formula", quoted(j.Y)+" ~ "+strings.Join(terms, " + "))
	}
	for _, name := range j.Group {
		keep("group."+name, quoted(name))
	}
	for key, name := range map[string]string{"weight": j.Weight, "offset": j.Offset, "trials": j.Trials} {
		if name != "" {
			keep("option."+key, quoted(name))
		}
	}
	return meta
}

func quoted(name string) string {
	if name == "" {
		return ""
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

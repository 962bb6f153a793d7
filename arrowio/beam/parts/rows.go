package parts

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/option"
)

// A Reader reads parts of the rows of a job.
type Reader struct {
	job   *Job
	skip  bool
	from  Fits
	known map[string]*kernels.Fit // decoded, by their bytes
}

// NewReader returns a reader for a job. Errors: those of Job.Check.
func NewReader(j *Job) (*Reader, error) {
	s, err := j.settings()
	if err != nil {
		return nil, err
	}
	from, err := j.from()
	return &Reader{job: j, skip: s.OnError == option.Skip, from: from, known: map[string]*kernels.Fit{}}, err
}

// Fits are fits by the text of their group (arrowio.Groups.Key).
type Fits map[string]*kernels.Fit

// of is the fit of a group, or the one fit of all groups, under ""; nil for none.
func (f Fits) of(group string) *kernels.Fit {
	if fit, ok := f[group]; ok {
		return fit
	}
	return f[""]
}

// ReadFits reads a belief table in Parquet with the group columns by. A table that lacks one of
// them is one fit, under "" as well as "[]".
func ReadFits(ctx context.Context, path string, by []string) (Fits, error) {
	r, err := pqrows.Open(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for _, name := range by {
		if !r.Schema().HasField(name) {
			by = nil
		}
	}
	g, err := arrowio.ReadGroups(r, by, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out := Fits{}
	err = each(g, func(k int, group string) error {
		out[group] = g.Fits[k]
		return nil
	})
	if len(by) == 0 && err == nil {
		out[""] = g.Fits[0]
	}
	return out, err
}

// around is the fit around which a group's pass expands; done says that the group needs no pass.
// The rows of a group come in many parts: its fit is decoded once.
func (r *Reader) around(group string, t *Iterate) (f *kernels.Fit, done bool, err error) {
	if t == nil || t.Done {
		return r.from.of(group), t != nil, nil
	}
	if f, ok := r.known[string(t.fit)]; ok {
		return f, false, nil
	}
	if f, err = t.Fit(); err == nil {
		r.known[string(t.fit)] = f
	}
	return f, false, err
}

// Read emits a state for each group in a part of the rows: a pass around the group's fit in around,
// or around the fit that the job starts from, or a fit by ADF. Groups that are done are left out;
// after the first round, around has all groups. n is how many rows were read.
//
// Memory: a few thousand rows for each row group being decoded, and the states.
func (r *Reader) Read(ctx context.Context, s Split, round int, around map[string]*Iterate, emit func(group string, s State) error) (n int64, err error) {
	open := round == 0
	for _, t := range around {
		open = open || !t.Done
	}
	if !open {
		return 0, nil
	}
	modelOf := func(group string) (*kernels.Model, error) {
		if r.job.Method == LowRank {
			return r.job.after(around[group])
		}
		f, done, err := r.around(group, around[group])
		if done || err != nil {
			return nil, err
		}
		return r.job.model(f)
	}
	g, n, err := r.groups(ctx, s, modelOf)
	if err != nil {
		return n, err
	}
	return n, each(g, func(k int, group string) error {
		if len(g.Parts) > 0 {
			return emit(group, State{part: g.Parts[k]})
		}
		return emit(group, State{fit: g.Fits[k]})
	})
}

// groups feeds the rows of a part to the job's method.
func (r *Reader) groups(ctx context.Context, s Split, modelOf func(string) (*kernels.Model, error)) (_ *arrowio.Groups, n int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s, row groups %d to %d: %w", s.File, s.First+1, s.End, err)
		}
	}()
	in, err := pqrows.OpenGroups(ctx, s.File, r.job.columns(), s.First, s.End)
	if err != nil {
		return nil, 0, err
	}
	defer in.Close()
	m, err := modelOf("[]")
	if err != nil || m == nil {
		return &arrowio.Groups{}, 0, err
	}
	job := r.job.rows(m, r.skip)
	job.ModelOf = modelOf
	f, err := arrowio.NewFitter(in.Schema(), job)
	if err != nil {
		return nil, 0, err
	}
	for in.Next() {
		if err := f.Add(ctx, in.RecordBatch()); err != nil {
			return nil, f.Rows(), err
		}
	}
	if err := in.Err(); err != nil {
		return nil, f.Rows(), err
	}
	g, err := f.Groups(ctx)
	return g, f.Rows(), err
}

// each visits the groups.
func each(g *arrowio.Groups, visit func(k int, group string) error) error {
	for k := range g.Fits {
		key, err := g.Key(k)
		if err != nil {
			return err
		}
		if err := visit(k, key); err != nil {
			return err
		}
	}
	if g.Keys != nil {
		g.Keys.Release()
	}
	return nil
}

// Write writes fits to a belief table in the file path, groups in the order of their texts, to a
// temporary file beside it that is renamed once complete.
func (j *Job) Write(ctx context.Context, path string, fits Fits) error {
	var keys []string
	for key := range fits {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	g, err := j.keys(ctx, keys)
	if err != nil {
		return err
	}
	if g.Keys != nil {
		defer g.Keys.Release()
	}
	for _, key := range keys {
		g.Fits = append(g.Fits, fits[key])
	}
	return g.WriteParquetFile(path, j.Meta()...)
}

// ShardPath is the file of a shard of an output, path itself if there is only one.
func ShardPath(path string, shard, shards int) string {
	if shards <= 1 {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s-%05d-of-%05d%s", strings.TrimSuffix(path, ext), shard, shards, ext)
}

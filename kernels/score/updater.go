package score

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/lik"
)

// Observation is a row with its response.
type Observation struct {
	Row
	Y      float64
	Weight float64 // exponent of the likelihood; 0 means 1
	Trials float64 // for binomial responses
	Time   float64 // for models with time
}

// Publishing says when an Updater makes a Snapshot of what it has learnt. The zero value means
// every 1000 rows.
type Publishing struct {
	Rows     int           // after so many rows; 0 means 1000
	Interval time.Duration // and so long after the first row that is not in one; 0 = never
}

// Updater learns from rows by assumed density filtering (method adf) and publishes Snapshots. It is
// safe for concurrent use: calls learn one after another, and readers of Snapshot never wait.
type Updater struct {
	snap atomic.Pointer[Snapshot]
	when Publishing

	building sync.Mutex // held while a Snapshot is made, so that they are published in order

	mu      sync.Mutex // guards everything below; locked after building
	model   *kernels.Model
	columns *columns        // of the continued fit, nil for none
	schema  *kernels.Schema // of the columns
	state   engine.Fitter
	batch   kernels.Batch
	dup     kernels.Scratch
	pending int // rows learnt since the state was last cloned for a Snapshot
	timer   *time.Timer
	failed  error // error of a Snapshot that the timer started
}

// NewUpdater starts from the prior of a model, or from the posterior that it continues; nil is the
// default model. Its first Snapshot is available at once. If the continued fit remembers columns,
// rows must have them (see Row); Options.Missing decides how a missing value is treated, by default as
// by the fit, and features of other columns are added.
//
// Errors: a model that adf rejects.
func NewUpdater(m *kernels.Model, when Publishing) (*Updater, error) {
	adf, err := engine.Find("adf")
	if err != nil {
		return nil, err
	}
	if when.Rows == 0 {
		when.Rows = 1000
	}
	if when.Rows < 0 || when.Interval < 0 {
		return nil, fmt.Errorf("publishing each %d rows and %v; allowed: numbers >= 0", when.Rows, when.Interval)
	}
	u := &Updater{when: when, model: m.Complete()}
	if f := u.model.Start; f != nil && f.Columns != nil && u.model.Options.Missing == "" {
		own := *u.model // which may be m
		own.Options.Missing = f.Missing()
		u.model = &own
	}
	if u.state, err = adf.New(context.Background(), u.model); err != nil {
		return nil, err
	}
	if f := u.model.Start; !u.model.Options.AnyColumns && f != nil && f.Columns != nil {
		u.columns, u.schema = newColumns(f, u.model), &kernels.Schema{}
		for _, c := range u.columns.cols {
			u.schema.Names, u.schema.Levels = append(u.schema.Names, c.Name), append(u.schema.Levels, c.Kind == kernels.LevelsColumn)
		}
		u.state.Features().Use(f.NameColumns())
	}
	return u, u.Publish(context.Background())
}

// Snapshot returns the latest one. It never waits.
func (u *Updater) Snapshot() *Snapshot { return u.snap.Load() }

var errNew = errors.New("the zero Updater learns nothing; make one with NewUpdater")

// Learn absorbs rows. They are in the next Snapshot, which the call makes itself once
// Publishing.Rows have accumulated, while other calls can go on learning. If ctx ends before that
// Snapshot is made, a later call or the interval makes it.
//
// Cost: O(non-zeros), and for a Snapshot O(p log p).
// Errors: the cause of ctx if it has ended, and the first row that is not allowed, with its number
// from 1, in both cases with nothing learnt; a row too far from the current beliefs, such as one
// whose linear predictor overflows, with the rows before it learnt, as the error says; more
// features than the model's limit; a Snapshot that failed.
func (u *Updater) Learn(ctx context.Context, rows ...Observation) error {
	full, err := u.learn(ctx, rows)
	if err != nil {
		return err
	}
	// Another call that makes a Snapshot takes these rows as well if it sees them; else they are due now.
	for full && u.building.TryLock() {
		err := u.publish(ctx)
		u.building.Unlock()
		if ctx.Err() != nil { // the rows are learnt, and an error would say that they are not
			return nil
		}
		if err != nil {
			return err
		}
		full = u.due()
	}
	return nil
}

// due reports whether rows wait for a Snapshot that Publishing.Rows says is due.
func (u *Updater) due() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pending >= u.when.Rows
}

func (u *Updater) learn(ctx context.Context, rows []Observation) (full bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.state == nil {
		return false, errNew
	}
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	if err := u.failed; err != nil {
		u.failed = nil
		return false, err
	}
	missing := []int64(nil)
	if u.columns != nil {
		if rows, missing, err = u.columned(rows); err != nil {
			return false, err
		}
	}
	if err := u.encode(rows); err != nil {
		return false, err
	}
	u.batch.Schema, u.batch.Missing = u.schema, append(u.batch.Missing[:0], missing...)
	// A state whose update is cut off by the end of ctx must not be used.
	if err := u.state.Update(context.WithoutCancel(ctx), &u.batch, false); err != nil {
		if at := (*kernels.BatchError)(nil); errors.As(err, &at) {
			u.addPending(at.Row)
			if err = fmt.Errorf("row %d: %w", at.Row+1, err); at.Row > 0 {
				err = fmt.Errorf("%w; the rows before it are learnt", err)
			}
		}
		return false, err
	}
	u.addPending(len(rows))
	return u.pending >= u.when.Rows, nil
}

// addPending counts rows that are in no Snapshot yet; the first ones start the timer. u.mu is held.
func (u *Updater) addPending(rows int) {
	if u.pending == 0 && rows > 0 && u.when.Interval > 0 {
		u.timer = time.AfterFunc(u.when.Interval, func() {
			if err := u.Publish(context.Background()); err != nil {
				u.mu.Lock()
				u.failed = err
				u.mu.Unlock()
			}
		})
	}
	u.pending += rows
}

// columned matches rows to the columns of the continued fit, and counts missing values by column.
func (u *Updater) columned(rows []Observation) (out []Observation, missing []int64, err error) {
	out, missing = slices.Clone(rows), make([]int64, len(u.columns.cols))
	for i := range out {
		r := &out[i]
		var n named
		if err = r.check(); err == nil {
			err = u.columns.read(&r.Row, &n)
		}
		for k, is := range n.null {
			if is {
				missing[k]++
			}
			if is && err == nil && u.model.Options.Missing == "error" {
				err = fmt.Errorf("column %q has no value; with Missing \"error\" every row needs one", u.columns.cols[k].Name)
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("row %d: %w", i+1, err)
		}
		r.Names, r.Values = n.names, n.values
		if u.model.Options.Missing != "indicator" {
			r.Names, r.Values = u.columns.present(&n)
		}
	}
	return out, missing, nil
}

// encode encodes rows in the batch, all of them or none.
func (u *Updater) encode(rows []Observation) error {
	for i := range rows {
		r := &rows[i]
		if err := r.check(); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
		if err := u.model.Lik.Check(lik.Obs{Y: r.Y, Weight: kernels.Or(r.Weight, 1), Trials: r.Trials}); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
		if !u.model.NoIntercept && slices.Contains(r.Names, kernels.Intercept) {
			return fmt.Errorf("row %d: %w", i+1, kernels.ErrIntercept)
		}
		sum := r.Offset + r.Time
		for k, x := range r.Values {
			if u.columns == nil || x == x || !u.columns.lacks(r.Names[k]) {
				sum += x
			}
		}
		if sum-sum != 0 {
			return fmt.Errorf("row %d: its values, offset or time are not finite", i+1)
		}
	}
	b, d := &u.batch, u.state.Features()
	if err := room(d, rows); err != nil {
		return err
	}
	b.Reset()
	for i := range rows {
		r := &rows[i]
		if !u.model.NoIntercept {
			b.Add(0, 1)
		}
		for k, name := range r.Names {
			if err := b.AddNamed(d, name, r.value(k)); err != nil {
				return err
			}
		}
		b.SumDuplicates(&u.dup)
		b.EndRow()
		b.Y = append(b.Y, r.Y)
		b.Weight = append(b.Weight, kernels.Or(r.Weight, 1))
		b.Offset = append(b.Offset, r.Offset)
		b.Trials = append(b.Trials, r.Trials)
		b.Time = append(b.Time, r.Time)
	}
	return nil
}

// room checks that the dictionary has room for the names of rows, before any is added.
func room(d *kernels.Dict, rows []Observation) error {
	names := 0
	for i := range rows {
		names += len(rows[i].Names)
	}
	if d.Max == 0 || d.HashBits > 0 || d.Len()+names <= d.Max {
		return nil
	}
	fresh := map[string]bool{}
	for i := range rows {
		for _, name := range rows[i].Names {
			if _, known := d.Find(name); !known {
				fresh[name] = true
			}
		}
	}
	if d.Len()+len(fresh) > d.Max {
		return kernels.ErrTooManyFeatures{Max: d.Max}
	}
	return nil
}

// Publish makes a Snapshot of all rows learnt so far.
func (u *Updater) Publish(ctx context.Context) error {
	u.building.Lock()
	defer u.building.Unlock()
	return u.publish(ctx)
}

func (u *Updater) publish(ctx context.Context) error {
	u.mu.Lock()
	if u.state == nil {
		u.mu.Unlock()
		return errNew
	}
	if u.timer != nil {
		u.timer.Stop()
	}
	state, rows := u.state.Clone(), u.pending
	u.pending = 0
	u.mu.Unlock()
	f, err := state.Fit(ctx)
	if err != nil {
		if ctx.Err() != nil { // the rows wait for the next Snapshot
			u.mu.Lock()
			u.addPending(rows)
			u.mu.Unlock()
		}
		return err
	}
	s, err := New(f.Fit)
	if err != nil {
		return err
	}
	u.snap.Store(s)
	return nil
}

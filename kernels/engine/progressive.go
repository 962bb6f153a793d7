package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/stop"
	"github.com/bglm/bglm/kernels/stream"
)

// Prediction is the prediction of a row before it was learnt.
type Prediction struct {
	Y            float64
	Mean         float64 // expected response, with the weights integrated out
	Lower, Upper float64 // 95 % interval (lik.Likelihood.Interval)
	LogDensity   float64 // of Y
}

// Progressive is a streaming method whose Result has, in addition to the fit, its prediction of
// each row before it learns it (Result.Rows): the prequential test of a stream, without holding out
// a part of the data. While the scale of responses is learnt and no two different ones have come,
// the interval of a row is the whole line, and its density is its contribution to log_evidence.
// Cost: 40 bytes per row.
// Errors: a method that keeps the rows.
func (m *Method) Progressive() (*Method, error) {
	if !m.Streams || m.Kind != Weights {
		var names []string
		for i := range methods {
			if methods[i].Streams {
				names = append(names, methods[i].Name)
			}
		}
		return nil, wrongMethod(m.Name, names)
	}
	p := *m
	p.Kind = Predictions
	p.make = func(ctx context.Context, model *kernels.Model) (Fitter, error) {
		f, err := m.New(ctx, model)
		if err != nil {
			return nil, err
		}
		return &progressive{state: f.(interface{ filter() *stream.State }).filter()}, nil
	}
	return &p, nil
}

// progressive predicts every row before the filter learns it.
type progressive struct {
	state *stream.State
	light *stream.State // while rows are blind: it counted the weighted ones with weight 1; nil if there is none
	rows  []Prediction
}

func (p *progressive) filter() *stream.State   { return p.state }
func (p *progressive) Features() *kernels.Dict { return p.state.Features() }
func (p *progressive) Skip(n int64)            { p.state.Skip(n) }
func (p *progressive) Size() int64             { return p.state.Size() + 40*int64(cap(p.rows)) }

// Clone shares the rows so far, which are never changed.
func (p *progressive) Clone() Fitter {
	c := &progressive{state: p.state.Clone(), rows: p.rows[:len(p.rows):len(p.rows)]}
	if p.light != nil {
		c.light = p.light.Clone()
	}
	return c
}

// blind is the log density of the response of one, a row before the unit is known: its contribution
// to the evidence of a state in which every row has weight 1.
func (p *progressive) blind(ctx context.Context, one *kernels.Batch, skip bool) (float64, error) {
	s, weight := p.light, one.Weight[0]
	if s == nil || weight == 0 {
		if s == nil {
			s = p.state
		}
		s = s.Clone()
	}
	if weight != 0 {
		p.light = s
	}
	one.Weight[0] = 1
	defer func() { one.Weight[0] = weight }()
	before := s.LogEvidence()
	err := s.Update(ctx, one, skip)
	return s.LogEvidence() - before, err
}

// room checks the memory budget for more rows.
func (p *progressive) room(more int) error {
	if n := 40 * int64(2*(len(p.rows)+more)); n > growsFrom {
		return memory.Room(n, fmt.Sprintf("the predictions of %d rows", len(p.rows)+more))
	}
	return nil
}

func (p *progressive) Update(ctx context.Context, b *kernels.Batch, skip bool) error {
	if err := p.room(b.Len()); err != nil {
		return err
	}
	var one kernels.Batch
	for i := range b.Len() {
		if len(p.rows)&15 == 15 { // the state gets one row at a time, and checks every sixteenth of a batch only
			if err := stop.Cause(ctx); err != nil {
				return err
			}
		}
		one.Reset()
		fs, xs := b.Entries(i)
		for k, f := range fs {
			one.Add(f, xs[k])
		}
		one.EndRow()
		if one.Schema = b.Schema; i == 0 {
			one.Missing = append(one.Missing[:0], b.Missing...) // it is for all rows
		}
		o := b.Obs(i)
		one.Y = append(one.Y[:0], o.Y)
		one.Weight = append(one.Weight[:0], o.Weight)
		one.Offset = append(one.Offset[:0], b.Shift(i))
		if len(b.Trials) > 0 {
			one.Trials = append(one.Trials[:0], o.Trials)
		}
		if len(b.Time) > 0 {
			one.Time = append(one.Time[:0], b.Time[i])
		}
		to, err := p.state.Predict(&one)
		if err != nil {
			return err
		}
		density, apart := 0.0, to.Blind && (p.light != nil || o.Weight != 1)
		if !to.Blind {
			p.light = nil
		}
		if apart {
			if density, err = p.blind(ctx, &one, skip); err != nil {
				return err
			}
		}
		before, evidence := p.state.Rows(), p.state.LogEvidence()
		if err := p.state.Update(ctx, &one, skip); err != nil {
			return err
		}
		if p.state.Rows() == before {
			continue // an invalid row, which was skipped
		}
		r := expected(to.Likelihood, o, to.Mean, to.Variance)
		if to.Blind { // any response was possible; its density is in the unit found later
			r.Lower, r.Upper = math.Inf(-1), math.Inf(1)
			if r.LogDensity = density; !apart {
				r.LogDensity = p.state.LogEvidence() - evidence
			}
		}
		p.rows = append(p.rows, r)
	}
	return nil
}

// expected is the prediction for the row o with predictor N(m, v).
func expected(l lik.Likelihood, o lik.Obs, m, v float64) Prediction {
	r := Prediction{Y: o.Y, Mean: predict.Expected(l, predict.Exact, m, v)}
	r.Lower, r.Upper = l.Interval(m, v, 0.95)
	o.Weight = 1
	r.LogDensity = l.Moments(o, m, v).LogZ
	return r
}

// Merge appends the rows of src.
func (p *progressive) Merge(ctx context.Context, src Fitter) error {
	o, ok := src.(*progressive)
	if !ok {
		return errMixed
	}
	if err := p.room(len(o.rows)); err != nil {
		return err
	}
	p.rows, p.light = append(p.rows, o.rows...), nil
	return p.state.Merge(ctx, o.state)
}

func (p *progressive) Fit(ctx context.Context) (*Result, error) {
	f, err := p.state.Fit(ctx)
	r, err := checked(ctx, p.state.Model(), f, err, nil)
	if err == nil {
		r.Rows = p.rows
	}
	return r, err
}

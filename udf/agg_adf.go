package udf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/udf/internal/capi"
)

// adfPlan is what the options of bglm_adf come to.
type adfPlan struct {
	cfg               kernels.Model
	onError           errorMode
	shape, dispersion float64
}

func (o *options) adf(hasTime, hasTrials bool) (*adfPlan, error) {
	if hasTrials && o.family == "" {
		o.family = "binomial"
	}
	l, err := o.likelihood()
	if err != nil {
		return nil, err
	}
	if hasTrials != (l.Family() == "binomial") {
		if hasTrials {
			return nil, fmt.Errorf("option trials is not used by %s; it belongs to: binomial", l.Family())
		}
		return nil, fmt.Errorf("option trials: found none; binomial needs the number of trials of each row")
	}
	p := &adfPlan{onError: o.onError, shape: o.shape, dispersion: o.dispersion, cfg: kernels.Model{
		Lik: l, Prior: o.prior, Intercept: o.intercept, HashBits: o.hashBits, MaxFeatures: o.maxFeatures,
		Noise: o.noise, NoiseBy: o.noiseBy, Forgetting: o.forgetting, HasTime: hasTime, Start: o.from,
	}}
	if f := o.from; f != nil {
		drifts := o.noise > 0 || o.noiseBy != nil || o.forgetting < 1
		if drifts && !hasTime && f.Time == f.Time && f.N > 0 {
			return nil, fmt.Errorf("the prior FIT is valid at time %v, but the rows have no time to drift by; give the option time", f.Time)
		}
	}
	for _, b := range o.priors {
		if b.Feature, err = o.slotName(b.Feature); err != nil {
			return nil, err
		}
		p.cfg.Priors = append(p.cfg.Priors, b)
	}
	if o.hashBits > 0 && o.noiseBy != nil {
		p.cfg.NoiseBy = map[string]float64{}
		for name, q := range o.noiseBy {
			if name, err = o.slotName(name); err != nil {
				return nil, err
			}
			p.cfg.NoiseBy[name] = max(p.cfg.NoiseBy[name], q) // names that collide share the larger
		}
	}
	return p, nil
}

// slotName is what the dictionary calls a feature: with hash_bits its slot.
func (o *options) slotName(feature string) (string, error) {
	if o.hashBits == 0 || feature == kernels.Intercept {
		return feature, nil
	}
	d := kernels.Dict{HashBits: o.hashBits}
	id, err := d.Add(feature)
	if err != nil {
		return "", err
	}
	return string(d.Name(id)), nil
}

// adfState is the aggregate state of one group.
type adfState struct {
	*adf.State
	plan   *adfPlan
	failed bool // on_error: 'null' met a bad row
}

func (s *adfState) Clone() capi.State { return &adfState{s.State.Clone(), s.plan, s.failed} }
func (s *adfState) Size() int64       { return s.State.Size() + 48 }

func (s *adfState) Merge(src capi.State) error {
	o, ok := src.(*adfState)
	if !ok {
		return fmt.Errorf("internal error: merging states of different functions")
	}
	a, b := &s.plan.cfg, &o.plan.cfg
	if a.Lik.Family() != b.Lik.Family() || a.Lik.Link() != b.Lik.Link() || a.Prior != b.Prior || a.Intercept != b.Intercept ||
		a.HashBits != b.HashBits || a.Noise != b.Noise || a.Forgetting != b.Forgetting || (a.Start == nil) != (b.Start == nil) || len(a.Priors) != len(b.Priors) {
		return fmt.Errorf("the options differ between rows of one group; all but weight, offset, trials and time must be constant")
	}
	s.failed = s.failed || o.failed
	return s.State.Merge(o.State)
}

// interceptID is the intercept's number in a state that has one: adf.New puts
// it first.
const interceptID = 0

var batches = sync.Pool{New: func() any { return new(kernels.Batch) }}

// row appends row i with response v to the batch, or reports it as bad.
func (s *adfState) row(i int, v float64, x *features, cols *rowColumns, b *kernels.Batch) error {
	if !finite(v) {
		return badValue{fmt.Errorf("y = %v; allowed: finite numbers", v)}
	}
	if s.plan.onError != onErrorFail { // Update would find it too, but only after its features are known
		o := lik.Obs{Y: v, Weight: 1}
		if cols.trials != nil {
			o.Trials = cols.trials.Float(i)
		}
		if err := s.plan.cfg.Lik.Check(o); err != nil {
			return badValue{err}
		}
	}
	if s.plan.cfg.Intercept {
		b.Add(interceptID, 1)
	}
	if err := x.row(i, &s.Dict, b); err != nil {
		return err
	}
	if err := cols.add(i, b); err != nil {
		b.Row = b.Row[:len(b.Row)-1]
		b.DropRow()
		return err
	}
	return nil
}

// absorb feeds rows [lo, hi) of y, x and the row columns to the state.
func (s *adfState) absorb(y *capi.Vec, x *features, cols *rowColumns, lo, hi int) error {
	b := batches.Get().(*kernels.Batch)
	defer batches.Put(b)
	b.Reset()
	x.share(hi - lo)
	defer x.done()
	for i := lo; i < hi; i++ {
		if y.Null(i) || x.x.Null(i) || cols.null(i) {
			s.Skip(1)
			continue
		}
		features := s.Dict.Len()
		v := y.Float(i)
		err := s.row(i, v, x, cols, b)
		if err == nil {
			b.Y = append(b.Y, v)
			continue
		}
		if !errors.As(err, &badValue{}) {
			return err
		}
		switch s.plan.onError {
		case onErrorFail:
			return fmt.Errorf("%w (on_error: 'skip' would count and skip such rows)", err)
		case onErrorSkip:
			s.Skip(1)
		case onErrorNull:
			s.failed = true
		}
		s.Dict.Truncate(features) // a row left out leaves no feature behind
		x.forget()
	}
	err := s.Update(b, s.plan.onError == onErrorSkip)
	if err != nil && errors.Is(err, kernels.ErrRow) {
		if s.plan.onError == onErrorNull {
			s.failed = true
			return nil
		}
		return fmt.Errorf("%w (on_error: 'skip' would count and skip such rows)", err)
	}
	return err
}

// checkResponse says whether y can be a response at all.
func checkResponse(y *capi.Vec) error {
	if y.IsNumber() || y.Type == capi.Boolean || y.Type == capi.SQLNull {
		return nil
	}
	return fmt.Errorf("y is %s; allowed: BOOLEAN or a number", y.TypeName())
}

var adfCache optionCache[*adfPlan]

func updateADF(args []capi.Vec, slots capi.Slots) error {
	y := &args[0]
	if err := checkResponse(y); err != nil {
		return err
	}
	x, err := planFeatures(&args[1], "x")
	if err != nil {
		return err
	}
	var opt *capi.Vec
	if len(args) > 2 {
		opt = &args[2]
	}
	cols, err := findRowColumns(opt, "option")
	if err != nil {
		return err
	}
	cache := adfCache.call()
	return slots.Runs(func(slot capi.Slot, lo, hi int) error {
		st, err := slot.Mutable(func() (capi.State, error) {
			plan, err := cache.get(opt, lo, func() (*adfPlan, error) {
				o, err := parseOptions(opt, lo, adfKeys)
				if err != nil {
					return nil, err
				}
				return o.adf(cols.time != nil, cols.trials != nil)
			})
			if err != nil {
				return nil, err
			}
			s, err := adf.New(&plan.cfg)
			return &adfState{State: s, plan: plan}, err
		})
		if err != nil {
			return err
		}
		return st.(*adfState).absorb(y, x, &cols, lo, hi)
	})
}

func finalizeADF(states []capi.State, out *capi.Col) error {
	for _, st := range states {
		s, _ := st.(*adfState)
		if s == nil || s.failed {
			out.Null()
			continue
		}
		f := s.finish()
		appendFit(out, &f, s.Each)
	}
	return nil
}

// finish is the fit without its beliefs.
func (s *adfState) finish() kernels.Fit {
	f := s.Summary()
	f.Shape, f.Dispersion = s.plan.shape, s.plan.dispersion
	return f
}

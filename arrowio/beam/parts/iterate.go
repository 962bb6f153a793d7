package parts

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/stop"
)

// Iterate is the state of a group's fit between two rounds.
type Iterate struct {
	fit  []byte // the next pass expands around it; the result if Done
	Done bool
	// best is the fit around which the best pass so far expanded, and height the log posterior
	// there, up to a constant; nil before the first pass. For LowRank, best is the merged state,
	// from which the next pass continues.
	best   []byte
	height float64
}

// Fit is the fit around which the next pass expands, or the result if Done.
func (t *Iterate) Fit() (*kernels.Fit, error) { return decodeFit(t.fit) }

// iterateMark begins an encoded Iterate; its last byte is the version of the layout.
const iterateMark = "bglm round\x01"

var errIterate = errors.New("the bytes are no round of bglm, or of another version")

// Bytes encodes the iterate; DecodeIterate reads it on any machine.
func (t *Iterate) Bytes() []byte {
	b := []byte(iterateMark)
	done := byte(0)
	if t.Done {
		done = 1
	}
	b = append(b, done)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(t.height))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(t.fit)))
	return slices.Concat(b, t.fit, t.best)
}

// DecodeIterate reads Bytes; b must not change afterwards. Errors: bytes that are not an iterate,
// or one of another version; errors in its fits are returned by Fit.
func DecodeIterate(b []byte) (*Iterate, error) {
	head := len(iterateMark)
	if len(b) < head+17 || string(b[:head]) != iterateMark || b[head] > 1 {
		return nil, errIterate
	}
	t := &Iterate{Done: b[head] == 1, height: math.Float64frombits(binary.LittleEndian.Uint64(b[head+1:]))}
	n := binary.LittleEndian.Uint64(b[head+9:])
	if b = b[head+17:]; n == 0 || n > uint64(len(b)) {
		return nil, errIterate
	}
	t.fit, t.best = b[:n], b[n:]
	return t, nil
}

// A Solver computes iterates from merged states.
type Solver struct {
	job  *Job
	from Fits
}

// NewSolver returns a solver for a job. Errors: those of the fit that the job starts from.
func NewSolver(j *Job) (*Solver, error) {
	from, err := j.from()
	return &Solver{j, from}, err
}

// doneWithin is the distance to the mode, in posterior standard deviations, below which a pass is
// the last: its curvature, so the variances and the evidence, are off by that proportion, which the
// fit of a few rows would show. If prior variances are learnt, convergence is enough.
const doneWithin = 1e-8

// Solve returns the iterate of a group after a round, given its merged state and the iterate
// before, nil for none. Newton's step is taken in full; if one lowered the posterior, or led to
// where the likelihood is not finite, the next pass expands halfway back to the best point. The
// sites of EP have no height that a step must not lower. A cancelled ctx ends it with its cause.
func (v *Solver) Solve(ctx context.Context, group string, s State, before *Iterate) (*Iterate, error) {
	if s.part == nil {
		if s.fit == nil {
			return nil, errors.New("no rows to fit")
		}
		b, err := encodeFit(s.fit)
		return &Iterate{fit: b, Done: true}, err
	}
	m, err := v.job.model(nil)
	if err != nil {
		return nil, err
	}
	step, err := s.part.Step(ctx, m)
	if errors.Is(err, stop.ErrInterrupted) {
		return nil, err // not the fault of the step
	}
	if v.job.Method == LowRank {
		if err != nil {
			return nil, err
		}
		t := &Iterate{Done: step.Fit.Converged && (step.Distance <= doneWithin || m.Lik.Traits().Gaussian), best: s.part.Bytes()}
		t.fit, err = encodeFit(step.Fit)
		return t, err
	}
	climbs := !m.LearnsPrior() && v.job.Method == Laplace
	if before != nil && len(before.best) > 0 && (err != nil || climbs && lower(step.LogPosterior, before.height)) {
		return before.back()
	}
	if err != nil {
		return nil, err
	}
	t := &Iterate{Done: step.Fit.Converged && (m.LearnsPrior() || step.Distance <= doneWithin), height: step.LogPosterior}
	if t.fit, err = encodeFit(step.Fit); err != nil {
		return nil, err
	}
	switch from := v.from.of(group); {
	case before != nil:
		t.best = before.fit
	case from != nil:
		t.best, err = encodeFit(from)
	default:
		t.best, err = encodeFit(zero(step.Fit))
	}
	return t, err
}

// lower reports whether a is less than b by more than rounding.
func lower(a, b float64) bool { return a < b-1e-9*math.Max(1, math.Abs(b)) }

// zero is f with all weights 0.
func zero(f *kernels.Fit) *kernels.Fit {
	z := *f
	z.Prior.Mean = 0
	z.Beliefs = slices.Clone(f.Beliefs)
	for k := range z.Beliefs {
		z.Beliefs[k].Mean = 0
	}
	return &z
}

// back is t with its weights halfway to those of the best point.
func (t *Iterate) back() (*Iterate, error) {
	best, err := decodeFit(t.best)
	if err != nil {
		return nil, err
	}
	f, err := t.Fit()
	if err != nil {
		return nil, err
	}
	at := map[string]float64{}
	for _, w := range best.Beliefs {
		at[w.Feature] = w.Mean
	}
	f.Converged = false
	for k, w := range f.Beliefs {
		from, ok := at[w.Feature]
		if !ok {
			from = best.PriorOf([]byte(w.Feature)).Mean
		}
		f.Beliefs[k].Mean = 0.5*from + 0.5*w.Mean
	}
	b, err := encodeFit(f)
	return &Iterate{fit: b, best: t.best, height: t.height}, err
}

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

// Iterate is where the fit of a group stands between two rounds.
type Iterate struct {
	fit  []byte // what the next pass expands around, the result where Done says so
	Done bool
	// best is the fit that the best pass so far expanded around, and height the log posterior
	// there, but for a constant; nil before the first. Of LowRank it is the merged state, which
	// the next pass goes on from.
	best   []byte
	height float64
}

// Fit is what the next pass expands around, the result where Done says so.
func (t *Iterate) Fit() (*kernels.Fit, error) { return decodeFit(t.fit) }

// iterateMark begins an Iterate in bytes; its last byte is the version of the layout.
const iterateMark = "bglm round\x01"

var errIterate = errors.New("the bytes are no round of bglm, or of another version")

// Bytes is the iterate in bytes, which DecodeIterate reads on any machine.
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

// DecodeIterate reads Bytes, which must not change then. Errors: bytes that are none, or of
// another version; those of its fits come with Fit.
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

// A Solver makes iterates of states.
type Solver struct {
	job  *Job
	from Fits
}

// NewSolver returns one for a job. Errors: those of the fit that the job starts from.
func NewSolver(j *Job) (*Solver, error) {
	from, err := j.from()
	return &Solver{j, from}, err
}

// doneWithin is from how many posterior deviations to the mode on a pass is the last one: its
// curvature, and so the variances and the evidence, are that share off, which the fit of a few
// rows would show. Where prior variances are learnt it is done when it has converged.
const doneWithin = 1e-8

// Solve is where a group stands after a round: what its merged state comes to, and the iterate
// before, nil for none. Newton's step is taken whole; where one led down, or to where the
// likelihood is not finite, the next pass looks half-way back to the best point. Sites of EP have no
// height that a step must not lower. A cancelled ctx ends it with its cause.
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
		return nil, err // no step that led astray
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

// lower says whether a is less than b by more than rounding.
func lower(a, b float64) bool { return a < b-1e-9*math.Max(1, math.Abs(b)) }

// zero is a fit with all weights 0.
func zero(f *kernels.Fit) *kernels.Fit {
	z := *f
	z.Prior.Mean = 0
	z.Beliefs = slices.Clone(f.Beliefs)
	for k := range z.Beliefs {
		z.Beliefs[k].Mean = 0
	}
	return &z
}

// back is t with its weights half-way to those of the best point.
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

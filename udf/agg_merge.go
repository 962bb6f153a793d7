package udf

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/stream"
	"github.com/bglm/bglm/udf/internal/capi"
)

// mergeState multiplies posteriors. It keeps natural parameters relative to the
// common prior, so that the order of the parts does not matter beyond rounding:
// per feature Σ(Λk - Λ0), Σ(νk - ν0) and the parts' log normalisers.
type mergeState struct {
	head  kernels.Fit
	dict  kernels.Dict
	prior map[string]kernels.Weight // features of the prior FIT; nil without
	from  *kernels.Fit              // the prior FIT's counts
	lam   []float64                 // Σ (Λk - Λ0)
	nu    []float64                 // Σ (μk - μ0) Λk: means relative to the prior's
	logA  []float64                 // Σ log normaliser differences, for the evidence
	het   []float64                 // Σ (μk - μ0)² Λk, for the parts' disagreement
	known []bool
	mean  []float64 // of known weights
	k     int64

	// joint are the parts with a covariance; the fields above hold the others.
	joint []*kernels.Fit
}

func (s *mergeState) Clone() capi.State {
	c := *s
	c.dict = s.dict.Clone()
	c.lam, c.nu, c.logA = append([]float64(nil), s.lam...), append([]float64(nil), s.nu...), append([]float64(nil), s.logA...)
	c.het = append([]float64(nil), s.het...)
	c.known, c.mean = append([]bool(nil), s.known...), append([]float64(nil), s.mean...)
	c.joint = slices.Clone(s.joint)
	return &c
}

func (s *mergeState) Size() int64 {
	n := s.dict.Size() + 41*int64(cap(s.lam)) + 300
	for _, f := range s.joint {
		n += 8*int64(len(f.Covariance.Values)) + 60*int64(len(f.Beliefs))
	}
	return n
}

func (s *mergeState) priorOf(name []byte) kernels.Weight {
	if w, ok := s.prior[string(name)]; ok {
		return w
	}
	return s.head.Prior.Of(name)
}

// logNorm is the log normaliser of a Gaussian with precision lam and
// precision times mean nu, without the constant.
func logNorm(lam, nu float64) float64 { return 0.5 * (nu*nu/lam - math.Log(lam)) }

// noStart is what fits without a FIT given as prior started from.
var noStart = kernels.Fit{Time: nan}

func (s *mergeState) start() *kernels.Fit {
	if s.from != nil {
		return s.from
	}
	return &noStart
}

var errPriors = errors.New("the prior differs between rows of one group; allowed: the one FIT that all parts started from")

// sameFit says whether two decoded fits are the same, bit by bit.
func sameFit(a, b *kernels.Fit) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Beliefs, x.Covariance.Values, y.Beliefs, y.Covariance.Values = nil, nil, nil, nil
	bits := func(u, v float64) bool { return math.Float64bits(u) == math.Float64bits(v) }
	return fmt.Sprint(x) == fmt.Sprint(y) && slices.EqualFunc(a.Covariance.Values, b.Covariance.Values, bits) &&
		slices.EqualFunc(a.Beliefs, b.Beliefs, func(u, v kernels.Belief) bool {
			return u.Feature == v.Feature && bits(u.Mean, v.Mean) && bits(u.Variance, v.Variance)
		})
}

func (s *mergeState) slot(name string) (int, error) {
	id, err := s.dict.AddRaw(name)
	if err != nil {
		return 0, err
	}
	if int(id) == len(s.lam) {
		s.lam, s.nu, s.logA = append(s.lam, 0), append(s.nu, 0), append(s.logA, 0)
		s.het = append(s.het, 0)
		s.known, s.mean = append(s.known, false), append(s.mean, 0)
	}
	return int(id), nil
}

func (s *mergeState) know(id int, name string, mean float64) error {
	if s.known[id] && s.mean[id] != mean {
		return fmt.Errorf("feature %q is known (variance 0) as %v and as %v", name, s.mean[id], mean)
	}
	s.known[id], s.mean[id] = true, mean
	return nil
}

func (s *mergeState) add(f *kernels.Fit, r *beliefReader, lo, hi int) error {
	if s.k > 0 {
		if err := kernels.Agree(&s.head, f); err != nil {
			return err
		}
	}
	if err := s.head.AddPart(f, s.start()); err != nil {
		return err
	}
	s.k++
	for j := lo; j < hi; j++ {
		name, w, err := r.at(j)
		if err != nil {
			return err
		}
		id, err := s.slot(name)
		if err != nil {
			return err
		}
		p := s.priorOf(s.dict.Name(uint32(id)))
		if w.Variance == 0 || p.Variance == 0 {
			if p.Variance == 0 && w != p {
				return fmt.Errorf("feature %q is known a priori (variance 0), but a fit has mean %v, variance %v", name, w.Mean, w.Variance)
			}
			if err := s.know(id, name, w.Mean); err != nil {
				return err
			}
			continue
		}
		if w == p {
			continue
		}
		d := w.Mean - p.Mean
		s.lam[id] += 1/w.Variance - 1/p.Variance
		s.nu[id] += d / w.Variance
		s.het[id] += d * d / w.Variance
		s.logA[id] += -logNorm(1/w.Variance, d/w.Variance) + logNorm(1/p.Variance, 0)
	}
	return nil
}

func (s *mergeState) Merge(src capi.State) error {
	o, ok := src.(*mergeState)
	if !ok {
		return fmt.Errorf("internal error: merging states of different functions")
	}
	if err := kernels.Agree(&s.head, &o.head); err != nil {
		return err
	}
	if !sameFit(s.from, o.from) {
		return errPriors
	}
	if err := s.head.AddPart(&o.head, s.start()); err != nil {
		return err
	}
	s.k += o.k
	s.joint = append(s.joint, o.joint...)
	for j := range o.lam {
		name := string(o.dict.Name(uint32(j)))
		id, err := s.slot(name)
		if err != nil {
			return err
		}
		if o.known[j] {
			if err := s.know(id, name, o.mean[j]); err != nil {
				return err
			}
		}
		s.lam[id] += o.lam[j]
		s.nu[id] += o.nu[j]
		s.logA[id] += o.logA[j]
		s.het[id] += o.het[j]
	}
	return nil
}

func updateMerge(args []capi.Vec, slots capi.Slots) error {
	fits, err := newFitReader(&args[0], "fit")
	if err != nil {
		return err
	}
	var priors *fitReader
	var starts decoded[*kernels.Fit]
	if len(args) > 1 {
		if priors, err = newFitReader(&args[1], "prior"); err != nil {
			return err
		}
		starts.of(&args[1], func(i int) (*kernels.Fit, error) {
			if priors.null(i) {
				return nil, nil
			}
			p, err := priors.whole(i)
			if err != nil {
				return nil, fmt.Errorf("prior: %w", err)
			}
			return p, nil
		})
	}
	return slots.Runs(func(slot capi.Slot, lo, hi int) error {
		for i := lo; i < hi; i++ {
			if fits.null(i) {
				continue // as sum: NULL is no part
			}
			f, err := fits.head(i)
			if err != nil {
				return err
			}
			var p *kernels.Fit
			if priors != nil {
				if p, err = starts.at(i); err != nil {
					return err
				}
			}
			st, err := slot.Mutable(func() (capi.State, error) {
				s := &mergeState{head: *f}
				s.head.N, s.head.Skipped, s.head.LogEvidence, s.head.Time = 0, 0, 0, nan
				s.head.Covariance, s.head.Columns = kernels.Covariance{}, nil // values lie in the chunk
				if p != nil {
					if err := kernels.Agree(&s.head, p); err != nil {
						return nil, fmt.Errorf("prior: %w", err)
					}
					s.from = p
					s.head.N, s.head.Skipped, s.head.LogEvidence, s.head.Columns = p.N, p.Skipped, p.LogEvidence, p.Columns
					s.prior = make(map[string]kernels.Weight, len(p.Beliefs))
					for _, b := range p.Beliefs {
						s.prior[b.Feature] = b.Weight
						if _, err := s.slot(b.Feature); err != nil {
							return nil, err
						}
					}
				}
				return s, nil
			})
			if err != nil {
				return err
			}
			if !sameFit(st.(*mergeState).from, p) {
				return errPriors
			}
			if s := st.(*mergeState); f.Covariance.Form != gauss.Diagonal || s.from != nil && s.from.Covariance.Form != gauss.Diagonal {
				whole, err := fits.whole(i)
				if err != nil {
					return err
				}
				if err := kernels.Agree(&s.head, whole); err != nil {
					return err
				}
				s.joint = append(s.joint, whole)
				continue
			}
			a, b := fits.beliefs.list.Span(i)
			if err := st.(*mergeState).add(f, fits.beliefs, a, b); err != nil {
				return err
			}
		}
		return nil
	})
}

func finalizeMerge(states []capi.State, out *capi.Col) error {
	for _, st := range states {
		s, _ := st.(*mergeState)
		if s == nil {
			out.Null()
			continue
		}
		f := s.head
		f.Method, f.Iterations, f.Converged, f.Status = "merge", 1, true, "ok"
		ws := make([]kernels.Weight, len(s.lam))
		conflict := 0.0
		for id := range ws {
			p := s.priorOf(s.dict.Name(uint32(id)))
			switch {
			case s.known[id]:
				ws[id] = kernels.Weight{Mean: s.mean[id]}
			case p.Variance == 0 || s.lam[id] == 0 && s.nu[id] == 0:
				ws[id] = p
			default:
				l := 1/p.Variance + s.lam[id]
				if !(l > 0) {
					return fmt.Errorf("feature %q: the product of %d posteriors over the prior (variance %v) is improper, precision %v; "+
						"if the fits started from another common prior, give it as the second argument", s.dict.Name(uint32(id)), s.k, p.Variance, l)
				}
				ws[id] = kernels.Weight{Mean: p.Mean + s.nu[id]/l, Variance: 1 / l}
				if s.k > 1 { // Cochran's Q: K-1 squared normal deviates when the parts agree
					conflict = max(conflict, (s.het[id]-s.nu[id]*s.nu[id]/l)/float64(s.k-1))
				}
				// log ∫ Πqk / p^(K-1): what the sum of the parts' evidences lacks
				f.LogEvidence += logNorm(l, s.nu[id]) - logNorm(1/p.Variance, 0) + s.logA[id]
			}
		}
		each := func(visit func([]byte, kernels.Weight)) {
			for _, id := range s.dict.Order() {
				visit(s.dict.Name(id), ws[id])
			}
		}
		if len(s.joint) > 0 {
			parts := s.joint
			if s.k > 0 { // what the diagonal parts come to is one more part
				f.Beliefs = nil
				each(func(name []byte, w kernels.Weight) {
					f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: string(name), Weight: w})
				})
				parts = append(slices.Clone(parts), &f)
			}
			all, err := kernels.MergeFits(running(), parts, s.from)
			if err != nil {
				return err
			}
			appendFit(out, all, all.Each)
			continue
		}
		if conflict > stream.MaxConflict*stream.MaxConflict {
			f.Status = fmt.Sprintf("the fits disagree about a weight by %.0f standard deviations: log_evidence is not reliable", math.Sqrt(conflict))
		}
		appendFit(out, &f, each)
	}
	return nil
}

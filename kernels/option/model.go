package option

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/lik"
)

// PriorGiven reports whether a prior was given: a number, priors of features by name, or a fit.
func (s *Settings) PriorGiven() bool {
	number := func(c kernels.ColumnPrior) bool { return !c.Auto }
	return s.given["prior_mean"] || s.given["prior_variance"] && !s.Options.AutoPrior && len(s.PriorBy) == 0 || s.given["intercept_variance"] ||
		slices.ContainsFunc(s.PriorBy, number) || s.priorSet() != kernels.Prior{} || len(s.Priors) > 0 || s.Start != nil
}

// priorSet is the prior that a Go program set, even if it is that of the defaults.
func (s *Settings) priorSet() kernels.Prior {
	if s.Prior == s.read {
		return kernels.Prior{}
	}
	return s.Prior
}

// PriorNumber reports whether prior_mean, prior_variance or intercept_variance was given.
func (s *Settings) PriorNumber() bool {
	return s.given["prior_mean"] || s.given["prior_variance"] || s.given["intercept_variance"] || s.priorSet() != kernels.Prior{}
}

// Continue starts from the posterior f: settings that were not given are those of f, and those that
// were given must agree with it.
func (s *Settings) Continue(f *kernels.Fit) error {
	set := s.priorSet() != kernels.Prior{}
	s.Start = f
	differs := func(key string, found, want any) error {
		return &argument.Error{Name: key, Found: fmt.Sprintf("%v, but the prior fit has %v", found, want)}
	}
	if f.Family == kernels.Multinomial && len(f.Classes) == 0 { // no row had a class: the prior is all it has
		s.Start = nil
	} else if len(f.Classes) == 0 {
		if s.Family == "" && (s.Link == "" || s.Link == f.Link) {
			s.Family, s.Link = f.Family, f.Link
		}
		if err := s.Likelihood(); err != nil {
			return err
		}
		if l := s.Lik; l.Family() != f.Family {
			return differs("family", l.Family(), f.Family+" "+f.Link)
		} else if l.Link() != f.Link {
			return differs("link", l.Link(), f.Family+" "+f.Link)
		}
	}
	none := func(bits int) any {
		if bits == 0 {
			return "none"
		}
		return bits
	}
	switch {
	case !s.given["intercept"]:
		s.NoIntercept = !f.Intercept
	case s.NoIntercept == f.Intercept:
		return differs("intercept", !s.NoIntercept, f.Intercept)
	}
	switch {
	case !s.given["hash_bits"]:
		s.HashBits = f.HashBits
	case s.HashBits != f.HashBits:
		return differs("hash_bits", none(s.HashBits), none(f.HashBits))
	}
	if !s.given["dispersion"] || s.Options.AutoDispersion {
		s.Params.Dispersion = f.Dispersion
	}
	if !s.given["shape"] || s.Options.AutoShape {
		if s.Params.Shape = f.Shape; math.IsNaN(f.Shape) {
			s.Params.Shape = 0
		}
	}
	if !s.given["prior_mean"] {
		s.Prior.Mean = f.Prior.Mean
	}
	if !s.given["prior_variance"] || s.Options.AutoPrior {
		s.Prior.Variance = f.Prior.Variance
	}
	if !s.given["intercept_variance"] {
		s.Prior.InterceptVariance = f.Prior.InterceptVariance
	}
	if s.Prior = s.Prior.Literal(); !set && (s.Start != nil || s.Prior == kernels.DefaultPrior) {
		s.read = s.Prior
	}
	return nil
}

// Resume is Continue from Start for Go programs that set that field: settings that are zero become
// those of the fit. Without a Start it does nothing.
func (s *Settings) Resume() error {
	if s.Start == nil {
		return nil
	}
	given := maps.Clone(s.given)
	if given == nil {
		given = map[string]bool{}
	}
	prior := s.priorSet()
	for key, is := range map[string]bool{
		"intercept": s.NoIntercept, "hash_bits": s.HashBits != 0, "dispersion": s.Params.Dispersion != 0, "shape": s.Params.Shape != 0,
		"prior_mean": prior.Mean != 0, "prior_variance": prior.Variance != 0 || prior.Known, "intercept_variance": prior.InterceptVariance != 0 || prior.Known,
	} {
		given[key] = given[key] || is
	}
	own := s.given
	s.given = given
	err := s.Continue(s.Start)
	s.given = own
	return err
}

// Likelihood makes the likelihood of the family, the link and their parameters. Errors: unknown
// names, with the nearest one; a parameter that Decode has read and the family does not have. One that
// is set in Params for several families at once is ignored by those without it.
func (s *Settings) Likelihood() error {
	l, err := lik.New(s.Family, s.Link, s.Params)
	if err != nil {
		return err
	}
	for _, key := range []string{"dispersion", "shape"} {
		if with := lik.With(key); s.given[key] && !slices.Contains(with, l.Family()) {
			return &argument.Error{Name: key, Why: fmt.Sprintf("is not used by %s; it belongs to: %s", l.Family(), strings.Join(with, ", "))}
		}
	}
	if p, ok := l.(lik.Shaped); ok {
		s.Params.Shape = p.Shape()
	}
	if p, ok := l.(lik.Dispersed); ok {
		s.Params.Dispersion = p.Dispersion()
	}
	s.Lik = l
	return nil
}

// LikelihoodOf is Likelihood for rows with or without binomial trials; with them the default family
// is that of trials.
func (s *Settings) LikelihoodOf(trials bool) error {
	if trials && s.Family == "" {
		s.Family = lik.OfTrials()
	}
	if err := s.Likelihood(); err != nil {
		return err
	}
	return CheckTrials(s.Lik, trials)
}

// CheckTrials returns an error for rows with trials if the likelihood has none, and for rows without
// if it has.
func CheckTrials(l lik.Likelihood, trials bool) error {
	switch has := l.Traits().Trials; {
	case trials && !has:
		return &argument.Error{Name: "trials", Why: fmt.Sprintf("is not used by %s; it belongs to: %s", l.Family(), lik.OfTrials())}
	case has && !trials:
		return &argument.Error{Name: "trials", Found: "none", Why: l.Family() + " needs the number of trials of each row, a column or a number, and y is how many of them succeeded"}
	}
	return nil
}

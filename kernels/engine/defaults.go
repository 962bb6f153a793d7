package engine

import (
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
)

// defaults sets the options that settings leave to the method; given are the parameters that were
// given. It chooses:
//
//   - columns: open if the fit that is continued remembers none;
//   - missing: the mean and a feature of its own, but absent from open columns, or if they were for
//     the fit that is continued;
//   - standardize: if no prior was given, which would refer to the original scale, or if the fit
//     that is continued did; not by filters of open columns, which do not remember the scale, and
//     never by a Gaussian process;
//   - covariance, if the method has a default: that of the fit that is continued, else the default;
//   - rank of filters: that of the fit that is continued;
//   - dispersion and shape: learnt by methods that keep the rows, unless a number is given; on from
//     what the fit that is continued has learnt (Fit.LearnsOn); filters learn the dispersion of a
//     location family that they standardise and, if they can, the size of negbinomial and, unless a
//     prior is given, the shape of gamma;
//   - prior_variance of a filter with an arrowhead that learns it: learnt if neither a prior nor the
//     scale was given, or if the fit that is continued did;
//   - prior_variance of classes: learnt, if neither a prior nor the scale was given;
//   - integrate: true for methods that keep the rows, and passes of laplace; of fits that continue
//     another if they learn dispersion or shape.
func (m *Method) defaults(s *option.Settings, given lik.Params) {
	o, auto := &s.Options, !s.Standardize.IsGiven()
	o.AnyColumns = s.Columns == "any" || s.Columns == "" && s.Start != nil && s.Start.N > 0 && s.Start.Columns == nil
	if o.Missing == "" && !o.AnyColumns {
		o.Missing = s.Start.Missing()
	}
	if auto && m.Kind != Process && slices.Contains(option.For(m.Name).Keys(), "standardize") {
		begun := s.Start != nil && s.Start.Standardized() // maps and lists have no columns: of them only the responses are standardised
		o.Standardize = o.Standardize || begun || !s.PriorGiven()
		o.Standardize = o.Standardize && (begun || !m.Streams || !o.AnyColumns) // filters remember the scale of columns
	}
	if m.Covariance != "" && o.Covariance == "" {
		o.Covariance = m.Covariance
		if s.Start != nil {
			o.Covariance = s.Start.Covariance.Form.String()
		}
	}
	if m.Streams && o.Rank == 0 {
		if k, _, ok := s.Start.Kept(kernels.KeptRank); ok {
			o.Rank = int(k)
		}
	}
	if m.LearnsPrior {
		o.AutoPrior = (o.AutoPrior || auto && !s.PriorNumber()) && streamLearns(&s.Model)
	}
	_, dispersed := s.Lik.(lik.Dispersed)
	_, shaped := s.Lik.(lik.Shaped)
	if f := s.Start; m.Streams && o.Standardize && s.Lik.Traits().Located && (!s.Given("dispersion") || o.AutoDispersion) && o.MeasurementNoise == 0 && !o.AutoMeasurementNoise {
		o.AutoDispersion = o.AutoDispersion || f == nil && given.Dispersion == 0 || f != nil && learnsDispersion(f)
	}
	if m.Kind == Classes {
		o.AutoPrior = o.AutoPrior || auto && !s.PriorGiven()
		if !s.Given("integrate") {
			o.Integrate = s.Start == nil
		}
	}
	if m.LearnsShape && shaped && lik.LearnsShape(s.Lik) && !s.Given("shape") {
		counts := s.Lik.Traits().Counts
		_, _, begun := s.Start.Kept(kernels.KeptShape)
		fresh := s.Start == nil && given.Shape == 0 && (counts || !s.PriorGiven())
		o.AutoShape = o.AutoShape || fresh || begun || counts && learnsShape(s.Start)
	}
	if m.Streams || m.Kind == Classes || len(s.At) > 0 {
		return
	}
	f := s.Start
	if dispersed && !s.Given("dispersion") {
		o.AutoDispersion = o.AutoDispersion || f == nil && given.Dispersion == 0 || f.LearnsOn(kernels.LearntDeviation) && given.Dispersion == f.Dispersion
	}
	if shaped && !s.Given("shape") {
		o.AutoShape = o.AutoShape || f == nil && given.Shape == 0 || f.LearnsOn(kernels.LearntShape) && given.Shape == f.Shape
	}
	if !s.Given("integrate") {
		o.Integrate = (o.Sites == "" || o.Sites == "laplace") && (f == nil || o.AutoDispersion || o.AutoShape)
	}
}

// learnsShape reports whether f has learnt its shape from rows.
func learnsShape(f *kernels.Fit) bool {
	return f != nil && slices.ContainsFunc(f.Learnt, func(l kernels.Learnt) bool { return l.Name == kernels.LearntShape })
}

// learnsDispersion reports whether f comes from a stream that standardised the responses and learnt
// their dispersion.
func learnsDispersion(f *kernels.Fit) bool {
	learnt := slices.ContainsFunc(f.Learnt, func(l kernels.Learnt) bool { return l.Name == kernels.LearntDeviation })
	if _, _, ok := f.Kept(kernels.KeptUnit); ok {
		return learnt
	}
	if f.Covariance.Form != gauss.Arrowhead {
		return false
	}
	a := f.Covariance.Arrow()
	return a.HasResponse() && learnt || a.ResponseUnit() != 1 // layouts up to 3 do not record what was learnt
}

// streamLearns reports whether a stream with an arrowhead is to learn prior variances from its rows
// if no prior is given. It continues to learn them only if the fit that it continues did.
func streamLearns(m *kernels.Model) bool {
	o := &m.Options
	if o.Covariance != "arrowhead" || m.NoIntercept || m.Drifts() || o.AutoNoise || len(m.PriorBy)+len(m.Priors) > 0 {
		return false
	}
	p := m.Prior.Complete()
	if f := m.Start; f != nil {
		return f.Covariance.Form == gauss.Arrowhead && f.Covariance.Arrow().LearnsPrior()
	}
	return p == kernels.DefaultPrior
}

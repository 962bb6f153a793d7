package engine

import (
	"slices"

	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
)

// defaults makes options literal that settings leave to the method.
// What is NULL is the mean of its column and a feature of its own, but for open columns: those
// of a fit that remembers none stay so.
//
// Numbers are standardised where no prior was given, which would speak of the original
// scale, or where those of the fit that is continued were. Dispersion and shape are learnt by
// methods that keep the rows where neither a number nor a fit to continue says what they are;
// unshaped says that there was no number. Filters learn the dispersion of a location family
// where they standardise. adf goes on with the covariance of the fit that it continues; its own
// is an arrowhead.
func (m *Method) defaults(s *option.Settings, unshaped bool) {
	o := &s.Options
	o.AnyColumns = s.Columns == "any" || s.Columns == "" && s.Start != nil && s.Start.N > 0 && s.Start.Columns == nil
	if o.Missing == "" && !o.AnyColumns {
		o.Missing = "indicator"
	}
	if s.AutoStandardize && slices.Contains(option.For(m.Name).Keys(), "standardize") {
		o.Standardize = o.Standardize || !s.OwnPrior() || s.Start != nil && s.Start.Standardised()
		o.Standardize = o.Standardize && !(m.Streams && o.AnyColumns) // filters remember the scale of columns
	}
	if m.Name == "adf" && o.Covariance == "" {
		o.Covariance = "arrowhead"
		if s.Start != nil {
			o.Covariance = s.Start.Covariance.Form.String()
		}
	}
	has := func(parameter string) bool { return slices.Contains(lik.With(parameter), s.Lik.Family()) }
	if f := s.Start; m.Streams && o.Standardize && s.Lik.Traits().Located && !s.Given("dispersion") && o.MeasurementNoise == 0 && !o.AutoMeasurementNoise {
		o.AutoDispersion = o.AutoDispersion || f == nil && s.Params.Dispersion == 1 || f != nil && f.Covariance.Form == gauss.Arrowhead && f.Covariance.Arrow().ResponseUnit() != 1
	}
	if m.Streams || m.Kind == Classes || s.Start != nil || len(s.At) > 0 {
		return
	}
	if !s.Given("integrate") {
		o.Integrate = true
	}
	if has("dispersion") && !s.Given("dispersion") && s.Params.Dispersion == 1 {
		o.AutoDispersion = true
	}
	if has("shape") && !s.Given("shape") && unshaped {
		o.AutoShape = true
	}
}

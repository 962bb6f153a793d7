package engine

import (
	"slices"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
)

// defaults makes options literal that settings leave to the method.
//
// Numbers are standardised where no prior was given, which would speak of the original
// scale, or where those of the fit that is continued were. Dispersion and shape are learnt by
// methods that keep the rows where neither a number nor a fit to continue says what they are;
// unshaped says that there was no number.
func (m *Method) defaults(s *option.Settings, unshaped bool) {
	o := &s.Options
	if s.AutoStandardize && slices.Contains(option.For(m.Name).Keys(), "standardize") {
		o.Standardize = o.Standardize || !s.OwnPrior() || s.Start != nil && s.Start.Standardised()
	}
	if m.Streams || m.Kind == Classes || s.Start != nil || len(s.At) > 0 {
		return
	}
	if !s.Given("integrate") {
		o.Integrate = true
	}
	has := func(parameter string) bool { return slices.Contains(lik.With(parameter), s.Lik.Family()) }
	if has("dispersion") && !s.Given("dispersion") && s.Params.Dispersion == 1 {
		o.AutoDispersion = true
	}
	if has("shape") && !s.Given("shape") && unshaped {
		o.AutoShape = true
	}
}

package engine

import (
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/option"
)

// idle is a rule for options that have an effect only together with others.
type idle struct {
	keys []string
	only string // the method to which it applies, "" = all
	// works reports whether they have an effect; needs is what they would need.
	works func(s *option.Settings) bool
	needs string
}

var idleRules = []idle{
	{[]string{"sd_scale", "sd_freedom"}, "", func(s *option.Settings) bool {
		return s.LearnsPrior() || s.Options.Sites == "ep" // its own error says why
	}, "prior variances that are learnt (prior_variance 'auto')"},
	{[]string{"dispersion_scale", "dispersion_freedom"}, "", func(s *option.Settings) bool {
		return s.Options.AutoDispersion || s.Options.Sites == "ep"
	}, "a dispersion that is learnt (gaussian or studentt, dispersion 'auto')"},
	{[]string{"rank", "oversample", "power_iterations", "seed"}, "newton_state", func(s *option.Settings) bool {
		return s.Options.Sites == "lowrank"
	}, "method 'lowrank'"},
	{[]string{"noise_floor"}, "", func(s *option.Settings) bool { return s.Options.AutoMeasurementNoise }, "measurement_noise 'auto'"},
}

// checkIdle reports an option that was given but has no effect given the others. It accepts options
// of a covariance form (rank and its like) with another form or a fit that is continued, and of
// priors that integrate: false overrides: queries give them for several forms, methods and ways of
// learning at once.
func (m *Method) checkIdle(s *option.Settings) error {
	if m.Streams && s.Given("rank") && !s.Given("covariance") && s.Start == nil {
		return &argument.Error{Name: "rank", Why: "would change nothing here; it needs covariance 'lowrank'"}
	}
	for _, r := range idleRules {
		for _, key := range r.keys {
			if s.Given(key) && (r.only == "" || r.only == m.Name) && !r.works(s) {
				return &argument.Error{Name: key, Why: "would change nothing here; it needs " + r.needs}
			}
		}
	}
	return nil
}

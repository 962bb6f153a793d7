package engine

import (
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/option"
)

// An idle rule is what some options need beside them to have an effect.
type idle struct {
	keys []string
	only string // the method that it is for, "" = all
	// works says whether they have one, and needs what else they would.
	works func(s *option.Settings) bool
	needs string
}

var idleRules = []idle{
	{[]string{"sd_scale", "sd_freedom"}, "", func(s *option.Settings) bool {
		return s.LearnsPrior() || s.Options.Sites == "ep" // which says why
	}, "prior variances that are learnt (prior_variance 'auto')"},
	{[]string{"dispersion_scale", "dispersion_freedom"}, "", func(s *option.Settings) bool {
		return s.Options.AutoDispersion || s.Options.Sites == "ep"
	}, "a dispersion that is learnt (gaussian or studentt, dispersion 'auto')"},
	{[]string{"rank", "oversample", "power_iterations", "seed"}, "newton_state", func(s *option.Settings) bool {
		return s.Options.Sites == "lowrank"
	}, "method 'lowrank'"},
	{[]string{"noise_floor"}, "", func(s *option.Settings) bool { return s.Options.AutoMeasurementNoise }, "measurement_noise 'auto'"},
}

// checkIdle reports an option that was given and changes nothing beside the others. Those of forms
// (rank and its like) beside a form or a fit that is continued, and of priors that integrate: false sets aside,
// are none: queries give them for several forms, methods and ways of learning at once.
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

package engine

import (
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
)

var methods = []Method{
	{Name: "adf", Streams: true, Source: "Zoeter (2007), section 2",
		Summary: "One-pass assumed density filter, the one-step unscented Kalman filter: exact moments row by row, factorised beliefs or a full or low-rank covariance, drift.",
		Keys:    []string{"process_noise", "forgetting", "quadrature", "covariance", "rank"},
		New:     newADF},
}

func newADF(m *kernels.Model) (Fitter, error) {
	s, err := adf.New(m)
	return factorised{s}, err
}

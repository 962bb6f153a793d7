package hmc

import (
	"errors"

	"github.com/bglm/bglm/kernels"
)

func sampleLowRank(p *kernels.Problem, o *settings) (*Result, error) {
	return nil, errors.New("hmc: rank")
}

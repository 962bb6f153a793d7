package udf

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/udf/internal/capi"
)

// sampler draws the linear predictors of a predictor's rows. The weights of a diagonal fit are
// drawn in place; a fit with a covariance is decoded once per call.
type sampler struct {
	*predictor
	draws decoded[scorerDraw]
	b     kernels.Batch
}

type scorerDraw struct {
	*predict.Scorer
	draw *predict.Draw
}

// decode prepares the draws of a fit with a covariance.
func (s *sampler) decode(i int) (d scorerDraw, err error) {
	f, err := s.fits.whole(i)
	if err != nil {
		return d, err
	}
	if d.Scorer, err = predict.NewWith(f.ForPrediction(), s.fits.lik); err == nil {
		d.draw, err = d.NewDraw()
	}
	if err != nil {
		err = fmt.Errorf("the FIT: %w", err)
	}
	return d, err
}

func (s *sampler) linear(i int, f *kernels.Fit, fs []uint32, xs []float64, seed, draw uint64) (float64, error) {
	if f.Covariance.Form == gauss.Diagonal && s.fits.predictive.Plain() {
		key := predict.NewKey(seed, draw)
		eta := 0.0
		for k, id := range fs {
			w, _ := s.weight(f, id)
			if w.Variance > 0 {
				w.Mean += math.Sqrt(w.Variance) * key.Normal(s.dict.Name(id))
			}
			eta += xs[k] * w.Mean
		}
		if !special.Finite(eta) {
			return 0, fmt.Errorf("the linear predictor of a draw is %v; scale the features down", eta)
		}
		return eta, nil
	}
	d, err := s.draws.at(i)
	if err != nil {
		return 0, err
	}
	s.b.Reset()
	for k, id := range fs {
		own, err := d.Features().AddRaw(string(s.dict.Name(id)))
		if err != nil {
			return 0, err
		}
		s.b.Add(own, xs[k])
	}
	s.b.EndRow()
	d.draw.Set(seed, draw)
	return d.draw.Linear(&s.b, 0)
}

func callSample(args []capi.Vec, n int, out *capi.Col) error {
	p, err := newPredictor(&args[0], &args[1], "x")
	if err != nil {
		return err
	}
	defer p.free()
	for k, name := range [...]string{"seed", "draw"} {
		if v := &args[2+k]; !v.IsInteger() && v.Type != capi.SQLNull {
			return fmt.Errorf("%s is %s; allowed: a whole number", name, v.TypeName())
		}
	}
	whole := func(k, i int) (uint64, error) {
		x, ok := args[k].Bits(i)
		if !ok {
			return 0, fmt.Errorf("%s = %s; allowed: a whole number of 64 bits", [...]string{2: "seed", 3: "draw"}[k], args[k].AppendInt(nil, i))
		}
		return x, nil
	}
	s := &sampler{predictor: p}
	s.draws.of(&args[0], s.decode)
	for i := range n {
		if args[2].Null(i) || args[3].Null(i) {
			out.Null()
			continue
		}
		f, fs, xs, ok, err := p.row(i)
		if err != nil {
			return err
		}
		if !ok {
			out.Null()
			continue
		}
		seed, err := whole(2, i)
		if err != nil {
			return err
		}
		draw, err := whole(3, i)
		if err != nil {
			return err
		}
		eta, err := s.linear(i, f, fs, xs, seed, draw)
		if err != nil {
			return err
		}
		out.Float(p.fits.lik.Response(eta))
	}
	return nil
}

// leaveOut takes row out of its fit.
func (p *predictor) leaveOut(row observation, by predict.Factor) (predict.LeftOut, error) {
	k := p.fits.predictive
	m, v := k.Of(row.m, row.v, row.offset)
	out, err := predict.LeaveOut(p.fits.lik, row.Obs, m, v, by, p.fits.learntBeside(), func() (m, v float64, err error) {
		m, v, _, err = p.gaussian(row.i, true)
		m, v = k.Of(m+row.offset, v, row.offset)
		return m, v, err
	})
	if err != nil || k.Plain() {
		return out, err
	}
	return out.Averaged(p.fits.lik, row.Obs, row.m, row.v)
}

var influenceType = capi.StructOf(fld("residual", capi.TDouble), fld("curvature", capi.TDouble), fld("leverage", capi.TDouble), fld("loo_log_density", capi.TDouble))

// observation is a row with its response, and the Gaussian of its predictor.
type observation struct {
	i int
	lik.Obs
	m, v, offset float64
}

// observed calls write with the rows of (fit, y, x [, options]) that are complete; others are NULL.
// The options are those of function, all by row.
func observed(args []capi.Vec, n int, out *capi.Col, function string, write func(p *predictor, row observation) error) error {
	p, err := newPredictor(&args[0], &args[2], "x")
	if err != nil {
		return err
	}
	defer p.free()
	y := &args[1]
	if err := checkResponse(y); err != nil {
		return err
	}
	options, err := rowOptions(args, 3, function)
	if err != nil {
		return err
	}
	src, err := source(y, p.x, options, "option")
	if err != nil {
		return err
	}
	for i := range n {
		m, v, ok, err := p.linear(i)
		if err != nil {
			return err
		}
		if !ok {
			out.Null()
			continue
		}
		if err := checkTrials(src, p.fits.lik); err != nil {
			return err
		}
		o, offset, ok, err := src.Obs(i)
		if err != nil {
			return err
		}
		if !ok {
			out.Null()
			continue
		}
		if err := write(p, observation{i, o, m + offset, v, offset}); err != nil {
			return err
		}
	}
	return nil
}

func callInfluence(args []capi.Vec, n int, out *capi.Col) error {
	return observed(args, n, out, "influence", func(p *predictor, row observation) error {
		f, err := predict.InfluenceOf(p.fits.lik, row.Obs, row.m, row.v)
		if err != nil {
			return err
		}
		left, err := p.leaveOut(row, predict.AtMode)
		if err != nil {
			return err
		}
		out.Field(0).Float(f.Residual)
		out.Field(1).Float(f.Curvature)
		out.Field(2).Float(f.Leverage)
		floatOrNull(out.Field(3), left.LogDensity)
		out.EndStruct()
		return nil
	})
}

var looPredictType = capi.StructOf(append(slices.Clone(distType.Fields), fld("log_density", capi.TDouble), fld("reach", capi.TDouble))...)

func callLOOPredict(args []capi.Vec, n int, out *capi.Col) error {
	return observed(args, n, out, "influence", func(p *predictor, row observation) error {
		f, err := p.leaveOut(row, engine.FactorOf(p.fits.last.Method))
		if err != nil {
			return err
		}
		d := predict.Dist{EtaMean: nan, EtaVariance: nan, Mean: nan, Variance: nan, Lower: nan, Upper: nan}
		if !math.IsNaN(f.LogDensity) {
			l := p.fits.lik
			if f.Dispersion > 0 && !math.IsInf(f.Dispersion, 1) {
				if l, err = lik.New(l.Family(), l.Link(), lik.Params{Dispersion: f.Dispersion}); err != nil {
					return err
				}
			}
			if d, err = predict.DistOf(l, f.Mean, f.Variance, 0.95); err != nil {
				return err
			}
		}
		for k, x := range [...]float64{d.EtaMean, d.EtaVariance, d.Mean, d.Variance, d.Lower, d.Upper, f.LogDensity, f.Reach} {
			floatOrNull(out.Field(k), x)
		}
		out.EndStruct()
		return nil
	})
}

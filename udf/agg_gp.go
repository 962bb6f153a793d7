package udf

import (
	"fmt"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gp"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/udf/internal/capi"
)

// gpType is what bglm_gp returns. root and negative are the factor of the posterior, as documented
// at gp.Posterior.
var gpType = capi.StructOf(fld("family", capi.TVarchar), fld("link", capi.TVarchar), fld("kernel", capi.TVarchar), fld("lengthscale", capi.TDouble),
	fld("signal_variance", capi.TDouble), fld("mean", capi.TDouble), fld("x", capi.ListOf(capi.ListOf(capi.TDouble))), fld("alpha", capi.ListOf(capi.TDouble)),
	fld("n", capi.TBigInt), fld("log_evidence", capi.TDouble), fld("iterations", capi.TInteger), fld("converged", capi.TBoolean), fld("status", capi.TVarchar),
	fld("root", capi.ListOf(capi.TDouble)), fld("negative", capi.TInteger), fld("shape", capi.TDouble), fld("dispersion", capi.TDouble), fld("n_skipped", capi.TBigInt), fld("format", capi.TInteger),
	fld("center", capi.ListOf(capi.TDouble)), fld("scale", capi.ListOf(capi.TDouble)))

// gpFields lists the fields of gpType for the documentation.
func gpFields() string {
	var names []string
	for _, f := range gpType.Fields {
		names = append(names, f.Name)
	}
	return "STRUCT(" + strings.Join(names, ", ") + ")"
}

func appendGP(c *capi.Col, p *gp.Posterior, skipped int64) {
	k := 0
	next := func() *capi.Col { k++; return c.Field(k - 1) }
	next().Str(p.Family)
	next().Str(p.Link)
	next().Str(p.Kernel)
	next().Float(p.Lengthscale)
	next().Float(p.SignalVariance)
	next().Float(p.Mean)
	floats := func(l *capi.Col, v []float64) {
		for _, x := range v {
			l.Elem().Float(x)
		}
		l.EndList()
	}
	x := next()
	for i := range p.X.Rows {
		floats(x.Elem(), p.X.Row(i))
	}
	x.EndList()
	floats(next(), p.Alpha)
	next().Int(int64(p.N))
	next().Float(p.LogEvidence)
	next().Int(int64(p.Iterations))
	next().Bool(p.Converged)
	next().Str(p.Status)
	floats(next(), p.Root)
	next().Int(int64(p.Negative))
	floatOrNull(next(), p.Shape)
	next().Float(p.Dispersion)
	next().Int(skipped)
	next().Int(kernels.FitFormat)
	for _, v := range [][]float64{p.Center, p.Scale} {
		if c := next(); v == nil {
			c.Null()
		} else {
			floats(c, v)
		}
	}
	c.EndStruct()
}

var gpLayout = layout{
	what: "the Gaussian process", t: gpType,
	optional: fieldSet("n log_evidence iterations converged status n_skipped format center scale"),
	nullable: fieldSet("shape log_evidence format center scale"),
}

// isProcess reports whether v is a Gaussian process, whatever its types of numbers, rather than a
// FIT.
func isProcess(v *capi.Vec) bool { return v.Field("beliefs") == nil && v.Field("kernel") != nil }

// gpReader reads a column of processes; equal ones of a call are decoded once.
type gpReader struct {
	v        *capi.Vec
	required []named
	list     decoded[*gp.Predictor]
}

func newGPReader(v *capi.Vec) (*gpReader, error) {
	if err := gpLayout.fit(v); err != nil {
		return nil, err
	}
	r := &gpReader{v: v, required: gpLayout.required(v)}
	r.list.of(v, r.decode)
	return r, nil
}

func (r *gpReader) decode(i int) (*gp.Predictor, error) {
	p, err := r.posterior(i)
	if err != nil {
		return nil, fmt.Errorf("the Gaussian process: %w", err)
	}
	g, err := gp.NewPredictor(p, predict.Exact)
	if err != nil {
		return nil, fmt.Errorf("the Gaussian process: %w", err)
	}
	return g, nil
}

func (r *gpReader) posterior(i int) (*gp.Posterior, error) {
	if err := checkFormat(r.v.Field("format"), i); err != nil {
		return nil, err
	}
	if name := missingOf(r.required, i); name != "" {
		return nil, fmt.Errorf("NULL for its field %s; allowed: %s", name, typeAt(gpType, name))
	}
	f := func(name string) *capi.Vec { return r.v.Field(name) }
	p := &gp.Posterior{Family: strings.Clone(f("family").Str(i)), Link: strings.Clone(f("link").Str(i)), Kernel: strings.Clone(f("kernel").Str(i)),
		Lengthscale: f("lengthscale").Float(i), SignalVariance: f("signal_variance").Float(i), Mean: f("mean").Float(i), Dispersion: f("dispersion").Float(i)}
	var err error
	if p.Shape, err = optional(f("shape"), i, "shape"); err != nil {
		return nil, err
	}
	if _, err = optional(f("log_evidence"), i, "log_evidence"); err != nil {
		return nil, err
	}
	if p.Alpha, err = numbers(f("alpha"), i, "alpha"); err != nil {
		return nil, err
	}
	if p.Root, err = numbers(f("root"), i, "root"); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		name string
		to   *[]float64
	}{{"center", &p.Center}, {"scale", &p.Scale}} {
		if v := f(c.name); v != nil && !v.Null(i) {
			if *c.to, err = numbers(v, i, c.name); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range []struct {
		name string
		to   *int
	}{{"negative", &p.Negative}, {"n", &p.N}, {"iterations", &p.Iterations}, {"n_skipped", new(int)}} {
		k, err := count(f(c.name), i, c.name)
		if err != nil {
			return nil, err
		}
		if k < 0 || k > kernels.MaxCount {
			return nil, fmt.Errorf("%s = %d; allowed: whole numbers from 0 to %d", c.name, k, int64(kernels.MaxCount))
		}
		*c.to = int(k)
	}
	x := f("x")
	a, b := x.Span(i)
	p.X = &dense.Matrix{Rows: b - a}
	for k := a; k < b; k++ {
		if x.Kids[0].Null(k) {
			return nil, fmt.Errorf("x has a NULL row")
		}
		row, err := numbers(&x.Kids[0], k, "x")
		if err != nil {
			return nil, err
		}
		if k > a && len(row) != p.X.Cols {
			return nil, fmt.Errorf("x has rows of %d and of %d numbers", p.X.Cols, len(row))
		}
		p.X.Cols, p.X.Stride = len(row), len(row)
		p.X.Data = append(p.X.Data, row...)
	}
	return p, nil
}

// rows calls f with each row's latent Gaussian; rows without process or x are NULL.
func (r *gpReader) rows(x *capi.Vec, n int, out *capi.Col, f func(i int, l lik.Likelihood, m, v float64) error) error {
	if err := checkPoints(x); err != nil {
		return err
	}
	points, err := planFeatures(x, "x")
	if err != nil {
		return err
	}
	for i := range n {
		if r.v.Null(i) {
			out.Null()
			continue
		}
		if err := interruptCause(i); err != nil {
			return err
		}
		g, err := r.list.at(i)
		if err != nil {
			return err
		}
		if x.Null(i) {
			out.Null()
			continue
		}
		at, err := points.Point(i)
		if err != nil {
			return err
		}
		m, v, err := g.Linear(at, 0)
		if err != nil {
			return err
		}
		if err := f(i, g.Lik, m, v); err != nil {
			return err
		}
	}
	return nil
}

func callPredictGP(args []capi.Vec, n int, out *capi.Col) error {
	how, err := newHow(args)
	if err != nil {
		return err
	}
	r, err := newGPReader(&args[0])
	if err != nil {
		return err
	}
	return r.rows(&args[1], n, out, func(i int, l lik.Likelihood, m, v float64) error { return how.write(i, l, m, v, out) })
}

func callPredictDistGP(args []capi.Vec, n int, out *capi.Col) error {
	level, err := newLevel(args)
	if err != nil {
		return err
	}
	r, err := newGPReader(&args[0])
	if err != nil {
		return err
	}
	return r.rows(&args[1], n, out, func(i int, l lik.Likelihood, m, v float64) error { return level.write(i, l, m, v, out) })
}

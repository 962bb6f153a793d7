package udf

import (
	"fmt"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/answer"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/udf/internal/capi"
)

var checkType = capi.StructOf(fld("n", capi.TBigInt), fld("observed", capi.TDouble), fld("mean", capi.TDouble), fld("sd", capi.TDouble),
	fld("lower", capi.TDouble), fld("upper", capi.TDouble), fld("p", capi.TDouble))

func updateCheck(args []capi.Vec, slots capi.Slots) error {
	var options *capi.Vec
	if len(args) > 4 {
		options = &args[4]
		if options.Type != capi.Struct && options.Type != capi.SQLNull {
			return fmt.Errorf("options are %s; allowed: a STRUCT such as {draws: 1000}", options.TypeName())
		}
	}
	name := &args[3]
	if name.Type != capi.Varchar {
		return fmt.Errorf("statistic is %s; allowed: '%s'", name.TypeName(), strings.Join(answer.Statistics, "', '"))
	}
	src, err := scoredRows(&args[1], &args[2], options)
	if err != nil {
		return err
	}
	defer src.X.Release()
	var b kernels.Batch
	return underOne(args, slots, func(f *kernels.Fit, i int) (*answer.Check, error) {
		o, err := option.For("ppc").Decode(constants(options, i, false))
		if err != nil {
			return nil, err
		}
		if name.Null(i) {
			return nil, fmt.Errorf("statistic is NULL; allowed: '%s'", strings.Join(answer.Statistics, "', '"))
		}
		c, err := answer.NewCheck(f, strings.ToLower(strings.Clone(name.Str(i))), o.Answer.Level, o.Answer.Draws, o.Options.Seed)
		if err != nil {
			return nil, err
		}
		return c, checkTrials(src, c.Lik)
	}, func(c *answer.Check, lo, hi int) error {
		if at, err := src.Score(c.Fit, c.Features(), lo, hi, &b); err != nil || len(at) == 0 {
			return err
		}
		return c.Add(&b)
	})
}

func writeCheck(c *answer.Check, out *capi.Col) error {
	x, err := c.Checked(running())
	if err != nil {
		return err
	}
	out.Field(0).Int(x.N)
	for k, v := range [...]float64{x.Observed, x.Mean, x.SD, x.Lower, x.Upper, x.P} {
		floatOrNull(out.Field(1+k), v)
	}
	out.EndStruct()
	return nil
}

var driversType = capi.ListOf(capi.StructOf(fld("column", capi.TVarchar), fld("share", capi.TDouble), fld("sd", capi.TDouble),
	fld("lower", capi.TDouble), fld("upper", capi.TDouble), fld("spread", capi.TDouble)))

func updateDrivers(args []capi.Vec, slots capi.Slots) error {
	var options *capi.Vec
	var level levelOf
	var err error
	if len(args) > 2 && args[2].Type == capi.Struct {
		options = &args[2]
	} else if level, err = levelArgument(args, 2); err != nil {
		return fmt.Errorf("%w, or a STRUCT such as {weight: n}", err)
	}
	src, err := scoredRows(nil, &args[1], options)
	if err != nil {
		return err
	}
	defer src.X.Release()
	var b kernels.Batch
	return underOne(args, slots, func(f *kernels.Fit, i int) (*answer.Drivers, error) {
		if options == nil {
			return answer.NewDrivers(f, level.at(i))
		}
		o, err := option.For("drivers").Decode(constants(options, i, false))
		if err != nil {
			return nil, err
		}
		return answer.NewDrivers(f, o.Answer.Level)
	},
		func(d *answer.Drivers, lo, hi int) error {
			if at, err := src.Score(d.Fit, d.Features(), lo, hi, &b); err != nil || len(at) == 0 {
				return err
			}
			return d.Add(running(), &b)
		})
}

func writeDrivers(d *answer.Drivers, out *capi.Col) error {
	all, err := d.Drivers(running())
	if err != nil {
		return err
	}
	e := out.Elem()
	for k := range all {
		x := &all[k]
		e.Field(0).Str(x.Column)
		for j, v := range [...]float64{x.Mean, x.SD, x.Lower, x.Upper, x.Spread} {
			floatOrNull(e.Field(1+j), v)
		}
		e.EndStruct()
	}
	out.EndList()
	return nil
}

var pitType = capi.StructOf(fld("lower", capi.TDouble), fld("upper", capi.TDouble))

func callPIT(args []capi.Vec, n int, out *capi.Col) error {
	return observed(args, n, out, "pit", func(p *predictor, row observation) error {
		m, v := p.fits.predictive.Of(row.m, row.v, row.offset)
		lo, hi, err := answer.PIT(p.fits.lik, row.Obs, m, v)
		if err != nil {
			return err
		}
		out.Field(0).Float(lo)
		out.Field(1).Float(hi)
		out.EndStruct()
		return nil
	})
}

package udf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/softmax"
	"github.com/bglm/bglm/kernels/stop"
	sqlfiles "github.com/bglm/bglm/sql"
	"github.com/bglm/bglm/udf/internal/capi"
)

var summaryType = capi.ListOf(capi.StructOf(fld("term", capi.TVarchar), fld("column", capi.TVarchar), fld("mean", capi.TDouble), fld("sd", capi.TDouble),
	fld("lower", capi.TDouble), fld("upper", capi.TDouble), fld("exp_mean", capi.TDouble), fld("exp_lower", capi.TDouble), fld("exp_upper", capi.TDouble),
	fld("p_positive", capi.TDouble), fld("per_sd", capi.TDouble), fld("rope", capi.TDouble)))

// at is the level of row i.
func (q levelOf) at(i int) float64 {
	if q.v == nil || q.v.Null(i) {
		return 0.95
	}
	return q.v.Float(i)
}

func callSummary(args []capi.Vec, n int, out *capi.Col) error {
	r, err := newFitReader(&args[0], "fit")
	if err != nil {
		return err
	}
	r.classes = true
	var options *capi.Vec
	var level levelOf
	if len(args) > 1 && args[1].Type == capi.Struct {
		options = &args[1]
	} else if level, err = levelArgument(args, 1); err != nil {
		return fmt.Errorf("%w, or a STRUCT such as {rope: 0.1}", err)
	}
	for i := range n {
		if r.null(i) {
			out.Null()
			continue
		}
		f, err := r.whole(i)
		if err != nil {
			return err
		}
		at, rope := level.at(i), 0.0
		if options != nil {
			o, err := option.For("summary").Decode(constants(options, i, false))
			if err != nil {
				return err
			}
			at, rope = cmp.Or(o.Answer.Level, at), o.Answer.Rope
		}
		terms, err := predict.Summary(f, at, rope)
		if err != nil {
			return err
		}
		e := out.Elem()
		for k := range terms {
			t := &terms[k]
			e.Field(0).Str(t.Term)
			if t.Column == "" {
				e.Field(1).Null()
			} else {
				e.Field(1).Str(t.Column)
			}
			for j, v := range [...]float64{t.Mean, t.SD, t.Lower, t.Upper, t.ExpMean, t.ExpLower, t.ExpUpper, t.Positive, t.PerSD, t.Rope} {
				floatOrNull(e.Field(2+j), v)
			}
			e.EndStruct()
		}
		out.EndList()
	}
	return nil
}

var contrastType = capi.StructOf(fld("mean", capi.TDouble), fld("sd", capi.TDouble), fld("lower", capi.TDouble), fld("upper", capi.TDouble), fld("p_positive", capi.TDouble),
	fld("response", capi.StructOf(fld("mean", capi.TDouble), fld("sd", capi.TDouble), fld("lower", capi.TDouble), fld("upper", capi.TDouble))))

// differing is an entry of a difference of rows: the belief at a place, or an unseen feature.
type differing struct {
	weight kernels.Weight
	x      float64
}

// less is the Gaussian of the predictor of row i minus that of row i of o, both under one fit.
// Entries that both rows share cancel exactly.
func (p *predictor) less(o *predictor, i int) (mean, variance float64, ok bool, err error) {
	known := map[int]*differing{}
	unseen := map[string]*differing{}
	var f *kernels.Fit
	for k, q := range []*predictor{p, o} {
		head, fs, xs, ok, err := q.row(i)
		if !ok {
			return 0, 0, false, err
		}
		f = head
		sign := 1 - 2*float64(k)
		for k, id := range fs {
			w, at := q.weight(f, id)
			var e *differing
			if at == missing {
				name := string(q.dict.Name(id))
				if f.Covariance.Form == gauss.Arrowhead {
					j := -1
					if w, j = q.unseen(f, id, w); j >= 0 { // its level mean
						if e = known[^j]; e == nil {
							e = &differing{weight: kernels.Weight{Mean: w.Mean}}
							known[^j] = e
						}
						e.x += sign * xs[k]
						w.Mean = 0
					}
				}
				if e = unseen[name]; e == nil {
					e = &differing{weight: w}
					unseen[name] = e
				}
			} else if e = known[at]; e == nil {
				e = &differing{weight: w}
				known[at] = e
			}
			e.x += sign * xs[k]
		}
	}
	joint := f.Covariance.Form != gauss.Diagonal
	p.at, p.val = p.at[:0], p.val[:0]
	add := func(e *differing) {
		mean += e.x * e.weight.Mean
		variance += e.x * e.x * e.weight.Variance
	}
	places := make([]int, 0, len(known))
	for at := range known {
		places = append(places, at)
	}
	slices.Sort(places) // sums in a fixed order
	for _, at := range places {
		e := known[at]
		if e.x == 0 {
			continue
		}
		if joint {
			mean += e.x * e.weight.Mean
			p.at, p.val = append(p.at, at), append(p.val, e.x)
			continue
		}
		add(e)
	}
	names := make([]string, 0, len(unseen))
	for name := range unseen {
		names = append(names, name)
	}
	slices.Sort(names)
	p.unknown = p.unknown[:0]
	for _, name := range names {
		add(unseen[name])
		if len(f.Correlations) > 0 {
			p.unknown = append(p.unknown, kernels.Related{Name: []byte(name), X: unseen[name].x})
		}
	}
	variance += f.CorrelatedVariance(p.unknown, variance)
	if len(p.at) > 0 {
		variance += p.fits.spread.Variance(p.at, p.val, &p.room)
	}
	return mean, variance, true, kernels.CheckPredictor(mean, variance)
}

func callContrast(args []capi.Vec, n int, out *capi.Col) error {
	a, err := newPredictor(&args[0], &args[1], "a")
	if err != nil {
		return err
	}
	defer a.free()
	b, err := newPredictor(&args[0], &args[2], "b")
	if err != nil {
		return err
	}
	defer b.free()
	level, err := levelArgument(args, 3)
	if err != nil {
		return err
	}
	for i := range n {
		var ms, vs [3]float64
		var ok bool
		for k, q := range []*predictor{a, b} {
			if ms[k], vs[k], ok, err = q.linear(i); err != nil || !ok {
				break
			}
		}
		if err == nil && ok {
			ms[2], vs[2], ok, err = a.less(b, i)
		}
		if err != nil {
			return err
		}
		if !ok {
			out.Null()
			continue
		}
		c, err := predict.ContrastOf(a.fits.lik, a.fits.predictive, ms, vs, level.at(i))
		if err != nil {
			return err
		}
		appendContrast(&c, out, 0)
	}
	return nil
}

// maxPairs is how many levels bglm_pairs compares at most: the difference in the response is an
// integral that takes some tenths of a millisecond for each pair.
const maxPairs = 64

var pairsOfLevels = capi.ListOf(capi.StructOf(append([]capi.Field{fld("a", capi.TVarchar), fld("b", capi.TVarchar)}, contrastType.Fields...)...))

// callPairs contrasts each level of a column with those after it, at rows of x.
func callPairs(args []capi.Vec, n int, out *capi.Col) error {
	return pairs(args, n, out, false)
}

// pairs is callPairs, also for fits with classes.
func pairs(args []capi.Vec, n int, out *capi.Col, classes bool) error {
	fits, err := newFitReader(&args[0], "fit")
	if err != nil {
		return err
	}
	fits.classes = classes
	x, column := &args[1], &args[2]
	if x.Type != capi.Struct && x.Type != capi.SQLNull {
		return fmt.Errorf("x is %s; allowed: a STRUCT, whose columns can be changed", x.TypeName())
	}
	if column.Type != capi.Varchar && column.Type != capi.SQLNull {
		return fmt.Errorf("column is %s; allowed: VARCHAR, the name of a column of x", column.TypeName())
	}
	level, err := levelArgument(args, 3)
	if err != nil {
		return err
	}
	if err := checkEnums(x, "x"); err != nil {
		return err
	}
	for i := range n {
		if fits.null(i) || x.Null(i) || column.Null(i) {
			out.Null()
			continue
		}
		f, err := fits.whole(i)
		if err != nil {
			return err
		}
		if err := pairsAt(f, x, strings.Clone(column.Str(i)), i, level.at(i), out); err != nil {
			return err
		}
	}
	return nil
}

// pairsAt writes the contrasts of the levels of a column at row i of x.
func pairsAt(f *kernels.Fit, x *capi.Vec, column string, i int, level float64, out *capi.Col) error {
	col := columnOf(x)
	part := rows.Part(col, column)
	if known := knownColumn(f, column); part == nil && known != nil && known.Kind == kernels.LevelsColumn {
		return fmt.Errorf("column = '%.100s', which x does not have; allowed: x with that column, whatever its level there, as in NULL::VARCHAR", column)
	}
	if part == nil || part.Kind() == rows.Number {
		return fmt.Errorf("column = '%.100s', which is no column of levels of x", column)
	}
	levels, err := levelsOf(f, column, knownColumn(f, column))
	if err != nil {
		return err
	}
	if len(levels) > maxPairs {
		return fmt.Errorf("column = '%.100s' has %d levels; allowed: up to %d, all of whose pairs are compared (bglm_contrast compares two)", column, len(levels), maxPairs)
	}
	var dict *kernels.Dict
	var one *predict.Scorer
	var many *softmax.Scorer
	if len(f.Classes) > 0 {
		if many, err = softmax.NewScorer(f); err == nil {
			dict = many.Features()
		}
	} else if one, err = predict.New(f); err == nil {
		dict = one.Features()
	}
	if err != nil {
		return err
	}
	var b kernels.Batch
	b.Reset()
	for _, l := range levels {
		with, _, _ := rows.Change(col, column, func(c rows.Column) rows.Column { return rows.Fixed(c, l) })
		e := rows.NewScoring(with, "x", words)
		if _, err := e.Score(f); err != nil {
			return err
		}
		if e.Null(i) {
			e.Release()
			out.Null()
			return nil
		}
		err := e.Append(i, i+1, dict, f.Intercept, nil, &b)
		e.Release()
		if err != nil {
			return err
		}
	}
	e := out.Elem()
	for j, a := range levels {
		for k := j + 1; k < len(levels); k++ {
			if err := stop.Cause(running()); err != nil {
				return err
			}
			if many != nil {
				all, err := many.Contrasts(&b, j, k, level)
				if err != nil {
					return err
				}
				for c := range all {
					e.Field(0).Str(a)
					e.Field(1).Str(levels[k])
					appendClassContrast(&all[c], e, 2)
				}
				continue
			}
			c, err := one.Contrast(&b, j, k, level)
			if err != nil {
				return err
			}
			e.Field(0).Str(a)
			e.Field(1).Str(levels[k])
			appendContrast(&c, e, 2)
		}
	}
	out.EndList()
	return nil
}

// appendContrast writes the fields of contrastType, the first as field from, and ends the STRUCT.
func appendContrast(c *predict.Contrast, out *capi.Col, from int) {
	for k, v := range [...]float64{c.Mean, c.SD, c.Lower, c.Upper, c.Positive} {
		out.Field(from + k).Float(v)
	}
	r := out.Field(from + 5)
	for k, v := range [...]float64{c.Response.Mean, c.Response.SD, c.Response.Lower, c.Response.Upper} {
		floatOrNull(r.Field(k), v) // NULL for responses that both overflow
	}
	r.EndStruct()
	out.EndStruct()
}

var optionsType = capi.ListOf(capi.StructOf(fld("name", capi.TVarchar), fld("default", capi.TVarchar), fld("allowed", capi.TVarchar), fld("description", capi.TVarchar),
	fld("by_row", capi.TBoolean), fld("functions", capi.ListOf(capi.TVarchar))))

func callOptions(_ []capi.Vec, n int, out *capi.Col) error {
	for range n {
		for _, p := range option.All() {
			e := out.Elem()
			e.Field(0).Str(p.Key)
			e.Field(1).Str(Told(p.Default))
			e.Field(2).Str(p.Allowed(OptionWords))
			e.Field(3).Str(Told(p.Doc))
			e.Field(4).Bool(p.Row)
			for _, f := range Functions() {
				if f.option(p.Key) == p {
					e.Field(5).Elem().Str(f.Name)
				}
			}
			e.Field(5).EndList()
			e.EndStruct()
		}
		out.EndList()
	}
	return nil
}

// optionsOf are the functions whose options are, or begin with, those listed under other names.
var optionsOf = map[string][]string{
	"fit": {"fit", "adf"}, "progressive": {"fit", "adf"}, "update": {"adf"}, "newton_solve": {"newton_state"},
	"loo_auc": {"loo"}, "loo_predict": {"influence"},
}

// option is the option called key as f has it, nil if it has none: functions share keys whose
// defaults and meanings differ. Of the engines that f can name, the first one with the key counts.
func (f *Function) option(key string) *option.Spec {
	if !slices.Contains(f.Options, key) {
		return nil
	}
	short := strings.TrimPrefix(f.Name, "bglm_")
	uses := optionsOf[short]
	if uses == nil {
		uses = []string{short}
	}
	if p, err := option.For(uses...).Find(key); err == nil {
		return p
	}
	return option.Of(key)
}

// help describes a function or macro, with or without bglm_, an option, a family or a link.
// Errors: an unknown topic, with the nearest known one.
func help(topic string) (string, error) {
	var b strings.Builder
	var names []string
	word := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(topic)), "_") // offset_ is offset
	for _, f := range Functions() {
		short := strings.TrimPrefix(f.Name, "bglm_")
		names = append(names, f.Name, short)
		if word != f.Name && word != short {
			continue
		}
		fmt.Fprintf(&b, "%s (%s)\n\n%s\n", f.Signature, f.Kind, f.Description)
		if len(f.Options) > 0 {
			b.WriteString("\noptions:\n")
			for _, key := range f.Options {
				p := f.option(key)
				fmt.Fprintf(&b, "  %-20s %s; default %s\n", p.Key, Told(p.Doc), Told(p.Default))
			}
		}
		if f.Example != "" {
			fmt.Fprintf(&b, "\nexample:\n  %s\n", f.Example)
		}
	}
	for _, m := range sqlfiles.List() {
		short := strings.TrimPrefix(m.Name, "bglm_")
		names = append(names, m.Name, short)
		if word != m.Name && word != short {
			continue
		}
		kind := "macro"
		if m.Table {
			kind = "table macro"
		}
		fmt.Fprintf(&b, "%s (%s)\n\n%s\n\nmade by: bglm_macros('%s')\n", m.Signature, kind, m.Doc, m.Name)
	}
	for _, p := range option.All() {
		names = append(names, p.Key)
		if word != p.Key {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "option %s: %s\n\nallowed: %s\ndefault: %s\n", p.Key, Told(p.Doc), p.Allowed(OptionWords), Told(p.Default))
		if p.Row {
			b.WriteString("it may differ from row to row\n")
		}
		b.WriteString("used by:")
		for _, f := range Functions() {
			if f.option(p.Key) == p {
				fmt.Fprintf(&b, " %s", f.Name)
			}
		}
		b.WriteString("\n")
	}
	for _, f := range lik.Families() {
		names = append(names, f.Family)
		names = append(names, f.Links...)
		if word == f.Family || slices.Contains(f.Links, word) {
			if b.Len() > 0 {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "family %s, links %s: %s\n", f.Family, strings.Join(f.Links, ", "), f.Description)
		}
	}
	if b.Len() > 0 {
		return b.String(), nil
	}
	err := fmt.Errorf("name = '%.100s'; allowed: a function, a macro, an option, a family or a link (bglm_functions(), bglm_options() and bglm_families() list them)", topic)
	if near := option.Nearest(word, names); near != "" {
		err = fmt.Errorf("%w; the nearest is '%s'", err, near)
	}
	return "", err
}

func callHelp(args []capi.Vec, n int, out *capi.Col) error {
	v := &args[0]
	if v.Type != capi.Varchar && v.Type != capi.SQLNull {
		return fmt.Errorf("name is %s; allowed: VARCHAR, such as 'laplace' or 'prior_variance'", v.TypeName())
	}
	for i := range n {
		if v.Null(i) {
			out.Null()
			continue
		}
		text, err := help(v.Str(i))
		if err != nil {
			return err
		}
		out.Str(text)
	}
	return nil
}

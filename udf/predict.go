package udf

import (
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/udf/internal/capi"
)

// predictor finds the beliefs of a row's features by searching the ordered belief list in DuckDB's
// memory. A small dictionary numbers the features of a chunk, so that each is searched for once per
// chunk and FIT, however many rows have it. A dictionary that stays small is kept for the next
// chunk, where each search begins at the place found before.
type predictor struct {
	fits *fitReader
	x    *features
	dict kernels.Dict     // the intercept is 0
	cols *kernels.Columns // whose features dict has numbered
	name []byte

	// Rows [from, to) are encoded: row i is row in[i-from] of b, -1 where x is NULL.
	b         kernels.Batch
	from, to  int
	in        []int
	keep      []bool
	intercept bool // the encoded entries include an intercept

	lo, hi int     // the span of beliefs that found refers to
	epoch  uint32  // of that span
	found  []place // by local feature number
	held   beliefCopy

	filled  []float64 // the values of a row with missing numbers filled in
	at      []int     // with a covariance: the row's known beliefs, counted from 0
	val     []float64 // and their values
	unknown []kernels.Related
	room    kernels.SpreadScratch
}

// place is the position of a feature's belief in its list, or missing. A place of an earlier epoch
// is only where the search begins.
type place struct {
	at    int32
	epoch uint32
	w     kernels.Weight // if there is a belief
}

const missing = -2

// ahead is how many rows are encoded together, so that their names are found in one go.
const ahead = 256

var predictors = sync.Pool{New: func() any { return new(predictor) }}

func newPredictor(fit, x *capi.Vec, name string) (*predictor, error) {
	r, err := newFitReader(fit, "fit")
	if err != nil {
		return nil, err
	}
	f, err := planScoring(x, name)
	if err != nil {
		return nil, err
	}
	p := predictors.Get().(*predictor)
	p.fits, p.x = r, f
	p.lo, p.hi = -1, -1
	p.from, p.to = 0, 0
	return p, nil
}

// score makes p read x as f was fitted.
func (p *predictor) score(f *kernels.Fit) error {
	anew, err := p.x.Score(f)
	if err != nil || !anew {
		return err
	}
	p.from, p.to = 0, 0
	if n := p.dict.Len(); n > 0 && n <= dictLimit && p.cols == p.x.Columns() {
		return nil
	}
	p.cols = p.x.Columns()
	return p.forget(f.HashBits)
}

// dictLimit is how many names a dictionary may have to be kept for another chunk.
const dictLimit = 1 << 13

// next begins another list of beliefs.
func (p *predictor) next() {
	if p.epoch++; p.epoch == 0 {
		clear(p.found[:cap(p.found)])
		p.epoch = 1
	}
}

// forget empties the dictionary.
func (p *predictor) forget(hashBits int) error {
	p.dict.Reset()
	p.dict.HashBits = hashBits
	p.found = p.found[:0]
	p.from, p.to = 0, 0
	p.x.Forget()
	_, err := p.dict.AddRaw(kernels.Intercept)
	return err
}

// encode encodes rows from i on, up to the first invalid one; if that is row i, it is the error.
func (p *predictor) encode(i int, intercept bool) error {
	n := min(p.x.x.Len, i+ahead)
	p.in, p.keep = p.in[:0], p.keep[:0]
	rows := 0
	for j := i; j < n; j++ {
		here := !p.x.Null(j)
		p.keep = append(p.keep, here)
		if p.in = append(p.in, -1); here {
			p.in[j-i] = rows
			rows++
		}
	}
	keep := p.keep
	if rows == n-i {
		keep = nil
	}
	p.b.Reset()
	err := p.x.Append(i, n, &p.dict, intercept, keep, &p.b)
	if err != nil && n > i+1 {
		n = i + 1
		p.b.Reset()
		err = p.x.Append(i, n, &p.dict, intercept, nil, &p.b)
	}
	p.from, p.to, p.intercept = i, n, intercept
	if err != nil {
		p.to = i
	}
	for len(p.found) < p.dict.Len() {
		p.found = append(p.found, place{})
	}
	return err
}

func (p *predictor) free() {
	p.x.Release()
	p.fits, p.x = nil, nil
	predictors.Put(p)
}

// row reads row i: its features and their values, and the places of their beliefs into p.found. ok
// is false if fit or x is NULL.
func (p *predictor) row(i int) (f *kernels.Fit, fs []uint32, xs []float64, ok bool, err error) {
	if p.fits.null(i) || p.x.x.Null(i) {
		return nil, nil, nil, false, nil
	}
	if err := interruptCause(i); err != nil {
		return nil, nil, nil, false, err
	}
	if f, err = p.fits.head(i); err != nil {
		return nil, nil, nil, false, err
	}
	if err := p.score(f); err != nil {
		return nil, nil, nil, false, err
	}
	if f.HashBits != p.dict.HashBits {
		if err := p.forget(f.HashBits); err != nil {
			return nil, nil, nil, false, err
		}
	}
	if lo, hi := p.fits.beliefs.list.Span(i); lo != p.lo || hi != p.hi {
		p.lo, p.hi = lo, hi
		if !p.held.same(p.fits.beliefs, lo, hi) {
			p.next()
			p.held.keep(p.fits.beliefs, lo, hi, p.x.x.Len)
		}
	}
	if i < p.from || i >= p.to || f.Intercept != p.intercept {
		if err := p.encode(i, f.Intercept); err != nil {
			return nil, nil, nil, false, err
		}
	}
	if p.in[i-p.from] < 0 { // a container next to columns is NULL
		return nil, nil, nil, false, nil
	}
	fs, xs = p.b.Entries(p.in[i-p.from])
	for _, id := range fs {
		if w := &p.found[id]; w.epoch != p.epoch {
			p.name = p.dict.AppendName(p.name[:0], id)
			at := p.search(p.name, max(int(w.at), 0))
			if w.at, w.epoch = int32(at), p.epoch; at == missing {
				continue
			}
			r := p.fits.beliefs
			w.w = kernels.Weight{Mean: r.mean.Float(p.lo + at), Variance: r.variance.Float(p.lo + at)}
		}
	}
	if len(f.Columns) > 0 {
		xs = p.fillMissing(f, fs, xs)
	}
	return f, fs, xs, true, nil
}

// fillMissing is a row's values with missing numbers replaced by the means of their columns.
func (p *predictor) fillMissing(f *kernels.Fit, fs []uint32, xs []float64) []float64 {
	own := false
	for k, x := range xs {
		void := p.found[fs[k]].at == missing && f.IgnoresIndicator(p.dict.Name(fs[k]))
		if x == x && !void {
			continue
		}
		if !own {
			p.filled, own = append(p.filled[:0], xs...), true
			xs = p.filled
		}
		xs[k] = 0
		if !void {
			xs[k] = f.Replacement(string(p.dict.Name(fs[k])), func(feature string) bool { return p.search([]byte(feature), 0) != missing })
		}
	}
	return xs
}

// weight is the belief of feature id of the row, and its place in its list, or missing.
func (p *predictor) weight(f *kernels.Fit, id uint32) (kernels.Weight, int) {
	w := &p.found[id]
	if w.at == missing {
		return f.PriorOf(p.dict.Name(id)), missing
	}
	return w.w, int(w.at)
}

// unseen is the prior of feature id, which has no belief under an arrowhead covariance: for a level
// of a column with a level mean, its deviation from weight j of the block, with that mean; else w,
// -1.
func (p *predictor) unseen(f *kernels.Fit, id uint32, w kernels.Weight) (kernels.Weight, int) {
	c := &f.Covariance
	k := c.UnseenLevel(string(p.dict.Name(id)), p.hi-p.lo, func(k int) string { return p.fits.beliefs.feature.Str(p.lo + k) })
	if k < 0 {
		return w, -1
	}
	j, mean, rest, _ := c.LevelMean(k)
	return kernels.Weight{Mean: mean, Variance: w.Variance * rest}, j
}

// linear is the Gaussian of the linear predictor of row i; ok is false if fit or x is NULL.
func (p *predictor) linear(i int) (mean, variance float64, ok bool, err error) {
	return p.gaussian(i, false)
}

// gaussian is linear; with anew set it treats levels as new, as kernels.Fit.PriorAtMode does.
func (p *predictor) gaussian(i int, anew bool) (mean, variance float64, ok bool, err error) {
	f, fs, xs, ok, err := p.row(i)
	if !ok {
		return 0, 0, false, err
	}
	joint := f.Covariance.Form != gauss.Diagonal
	p.at, p.val, p.unknown = p.at[:0], p.val[:0], p.unknown[:0]
	for k, id := range fs {
		w, at := p.weight(f, id)
		v := xs[k]
		if anew && at != missing {
			if prior, ok := f.PriorAtMode(p.dict.Name(id)); ok {
				w, at = prior, missing
			}
		}
		if at == missing && f.Covariance.Form == gauss.Arrowhead {
			var j int
			if w, j = p.unseen(f, id, w); j >= 0 {
				p.at, p.val = append(p.at, ^j), append(p.val, v)
			}
		}
		mean += v * w.Mean
		if joint && at != missing {
			p.at, p.val = append(p.at, at), append(p.val, v)
			continue
		}
		variance += v * v * w.Variance
		if at == missing && len(f.Correlations) > 0 {
			p.unknown = append(p.unknown, kernels.Related{Name: p.dict.Name(id), X: v})
		}
	}
	variance += f.CorrelatedVariance(p.unknown, variance)
	if joint {
		variance += p.fits.spread.Variance(p.at, p.val, &p.room)
	}
	if err := kernels.CheckPredictor(mean, variance); err != nil {
		return 0, 0, false, err
	}
	return mean, variance, true, nil
}

// search is the position of the belief called name in the list; hint is tried first.
func (p *predictor) search(name []byte, hint int) int {
	s := unsafe.String(unsafe.SliceData(name), len(name))
	f := p.fits.beliefs.feature
	lo, hi := p.lo, p.hi
	if at := lo + hint; at < hi && f.Str(at) == s {
		return hint
	}
	// Dense positions mostly lie at their own index.
	if n := len(s); n > 0 && n < 10 && s[0] >= '1' && s[0] <= '9' {
		k := 0
		for _, c := range []byte(s) {
			if c < '0' || c > '9' {
				k = -1
				break
			}
			k = k*10 + int(c-'0')
		}
		for _, j := range [2]int{lo + k, lo + k - 1} {
			if k > 0 && j < hi && f.Str(j) == s {
				return j - p.lo
			}
		}
	}
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		switch c := kernels.CompareNames(f.Str(m), s); {
		case c < 0:
			lo = m + 1
		case c > 0:
			hi = m
		default:
			return m - p.lo
		}
	}
	return missing
}

// rows calls f with the Gaussian of each row's linear predictor, scaled for predicting its
// response, and null for rows without fit or x.
func (p *predictor) rows(n int, null func(), f func(i int, m, v float64) error) error {
	near := 0 // rows up to here are encoded, and have the FIT of the row before them
	for i := range n {
		m, v, ok := 0.0, 0.0, false
		if i < near {
			m, v, ok = p.fastLinear(i)
		}
		if !ok {
			var err error
			if m, v, ok, err = p.linear(i); err != nil {
				return err
			}
			if i >= near {
				near = p.runOfEqualFits(i, ok)
			}
		}
		if !ok {
			null()
			continue
		}
		m, v = p.fits.predictive.Of(m, v, 0)
		if err := f(i, m, v); err != nil {
			return err
		}
	}
	return nil
}

// runOfEqualFits is the end of the rows after i that are encoded and have its FIT, if again can
// serve them; else i. ok says that row i was not NULL.
func (p *predictor) runOfEqualFits(i int, ok bool) int {
	if !ok || p.fits.last.Covariance.Form != gauss.Diagonal {
		return i
	}
	run := p.fits.heads.run
	end := i + 1
	for end < p.to && run[end] == run[i] {
		end++
	}
	return end
}

// fastLinear is linear for row i with the FIT of the row before. ok is false where linear must do
// it: for a feature that is new here or has no belief, or a missing number.
func (p *predictor) fastLinear(i int) (mean, variance float64, ok bool) {
	at := p.in[i-p.from]
	if at < 0 {
		return 0, 0, false
	}
	fs, xs := p.b.Entries(at)
	xs = xs[:len(fs)]
	for k, id := range fs {
		w, x := &p.found[id], xs[k]
		if w.epoch != p.epoch || w.at == missing || x != x {
			return 0, 0, false
		}
		mean += x * w.w.Mean
		variance += x * x * w.w.Variance
	}
	return mean, variance, kernels.CheckPredictor(mean, variance) == nil
}

// predictionKind is the argument prediction of bglm_predict.
type predictionKind struct{ v *capi.Vec }

func newHow(args []capi.Vec) (predictionKind, error) {
	if len(args) < 3 {
		return predictionKind{}, nil
	}
	v := &args[2]
	if v.Type != capi.Varchar && v.Type != capi.SQLNull {
		return predictionKind{}, fmt.Errorf("prediction is %s; allowed: %s", v.TypeName(), argument.Quoted(predict.Kinds()))
	}
	return predictionKind{v}, nil
}

// kind is the kind of prediction asked for at row i.
func (h predictionKind) kind(i int) (predict.Kind, error) {
	if h.v == nil || h.v.Null(i) {
		return predict.Exact, nil
	}
	k, err := predict.ParseKind(h.v.Str(i))
	if err != nil {
		if near := option.Nearest(h.v.Str(i), predict.Kinds()); near != "" {
			err = fmt.Errorf("%w; the nearest is '%s'", err, near)
		}
	}
	return k, err
}

func (h predictionKind) write(i int, l lik.Likelihood, m, v float64, out *capi.Col) error {
	k, err := h.kind(i)
	if err == nil {
		out.Float(predict.Expected(l, k, m, v))
	}
	return err
}

func callPredict(args []capi.Vec, n int, out *capi.Col) error {
	if isProcess(&args[0]) {
		return callPredictGP(args, n, out)
	}
	p, err := newPredictor(&args[0], &args[1], "x")
	if err != nil {
		return err
	}
	defer p.free()
	how, err := newHow(args)
	if err != nil {
		return err
	}
	if how.v == nil {
		return p.expected(n, out)
	}
	return p.rows(n, out.Null, func(i int, m, v float64) error { return how.write(i, p.fits.lik, m, v, out) })
}

// expected writes the expected response of each row; rows under one FIT are computed together.
func (p *predictor) expected(n int, out *capi.Col) error {
	var m, v, y [ahead]float64
	k := 0 // rows that wait, all under the FIT of run with likelihood of
	run, of := int32(-1), lik.Likelihood(nil)
	flush := func() {
		predict.ExpectedMany(of, m[:k], v[:k], y[:k])
		for _, y := range y[:k] {
			out.Float(y)
		}
		k = 0
	}
	defer flush()
	null := func() {
		flush()
		out.Null()
	}
	return p.rows(n, null, func(_ int, mean, variance float64) error {
		if now := p.fits.heads.have; k == len(m) || now != run {
			flush()
			run, of = now, p.fits.lik
		}
		m[k], v[k] = mean, variance
		k++
		return nil
	})
}

var distType = capi.StructOf(fld("eta_mean", capi.TDouble), fld("eta_variance", capi.TDouble), fld("mean", capi.TDouble),
	fld("variance", capi.TDouble), fld("lower", capi.TDouble), fld("upper", capi.TDouble))

// levelOf is the argument level of bglm_predict_dist.
type levelOf struct{ v *capi.Vec }

func newLevel(args []capi.Vec) (levelOf, error) { return levelArgument(args, 2) }

// levelArgument is the level, argument k if it is given.
func levelArgument(args []capi.Vec, k int) (levelOf, error) {
	if len(args) <= k {
		return levelOf{}, nil
	}
	v := &args[k]
	if !v.IsNumber() && v.Type != capi.SQLNull {
		return levelOf{}, fmt.Errorf("level is %s; allowed: a number between 0 and 1", v.TypeName())
	}
	return levelOf{v}, nil
}

func (q levelOf) write(i int, l lik.Likelihood, m, v float64, out *capi.Col) error {
	d, err := predict.DistOf(l, m, v, q.at(i))
	if err != nil {
		return err
	}
	for k, x := range [...]float64{d.EtaMean, d.EtaVariance, d.Mean, d.Variance, d.Lower, d.Upper} {
		out.Field(k).Float(x)
	}
	out.EndStruct()
	return nil
}

func callPredictDist(args []capi.Vec, n int, out *capi.Col) error {
	if isProcess(&args[0]) {
		return callPredictDistGP(args, n, out)
	}
	p, err := newPredictor(&args[0], &args[1], "x")
	if err != nil {
		return err
	}
	defer p.free()
	level, err := newLevel(args)
	if err != nil {
		return err
	}
	return p.rows(n, out.Null, func(i int, m, v float64) error { return level.write(i, p.fits.lik, m, v, out) })
}

var nan = math.NaN()

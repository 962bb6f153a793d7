package answer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/metric"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/stop"
)

// PairAUC is the area under the ROC curve with pairs left out: the proportion of pairs of a row
// with 1 and one with 0 in which the former has the larger expected response given all other rows.
// Ties count half, also those within the accuracy of leaving out (tieTolerance). Leaving out single
// rows and ranking them together is biased below 1/2: each row with 1 is then judged by a fit of
// fewer such rows than any row with 0.
//
// A row of weight w counts as w rows, of which a pair has one.
//
// All pairs are judged if they are few. Otherwise the pairs to judge are drawn, and estimate the
// error of comparing rows left out singly, which is done for all rows.
//
// It is used by one goroutine at a time; several can be merged, which may change what is drawn.
//
// Source: [airola2011].
type PairAUC struct {
	*predict.Scorer
	by     predict.Factor
	single metric.Number // of rows left out one by one
	n      [2]int64      // rows by response, without those of weight 0
	rows   [2][]pairRow  // a random sample of these
	most   int           // size of the sample for each response; 0 before the first row
	bar    [2]uint64     // by response: rows with a larger draw are not in the sample; 0 while all are
	pair   kernels.Batch
}

// pairRow is a row with its predictor N(m, v), its site, and its expected response given all others.
type pairRow struct {
	draw     uint64 // the rows with the smallest draws are kept
	weight   float64
	features []uint32
	values   []float64
	shift    float64
	m, v     float64
	site     predict.Site
	alone    float64
}

const (
	pairRows  = 16_384  // size of the sample for each response, at most
	fewRows   = 512     // but at least these, if there are more
	pairKept  = 2e6     // entries in total
	mostPairs = 100_000 // pairs judged
	fewPairs  = 1000    // at least, whatever they cost
	pairWork  = 3e8     // approximate number of products for judging them
)

// NewPairAUC returns an area without rows; by is the factor that rows have in f (engine.FactorOf).
// Errors: those of predict.New; a family whose responses are not 0 and 1.
func NewPairAUC(f *kernels.Fit, by predict.Factor) (*PairAUC, error) {
	s, err := predict.New(f.ForPrediction())
	if err != nil {
		return nil, err
	}
	if t := s.Lik.Traits(); !t.Binary && !t.Trials {
		return nil, fmt.Errorf("the fit has the family %s; allowed: one whose responses are 0 and 1", s.Lik.Family())
	}
	return &PairAUC{Scorer: s, by: by, single: metric.AUC()}, nil
}

// Add adds the rows of b, whose feature numbers are those of Features. Rows that cannot be left out
// are not counted.
// Errors: those of LOO.Add; several trials.
func (a *PairAUC) Add(ctx context.Context, b *kernels.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	for i := range b.Len() {
		if err := stop.Cause(ctx); err != nil {
			return err
		}
		m, v, err := a.Linear(b, i)
		if err != nil {
			return err
		}
		o := b.Obs(i)
		if o.Trials > 1 || o.Y != 0 && o.Y != 1 {
			return fmt.Errorf("y = %v of %v trials: %w; allowed: 0 and 1 of one", o.Y, max(1, o.Trials), kernels.ErrRow)
		}
		out, err := a.LeaveOut(b, i, m, v, a.by)
		if err != nil {
			return err
		}
		if math.IsNaN(out.Mean) || o.Weight == 0 {
			continue
		}
		r := pairRow{weight: o.Weight, shift: b.Shift(i), m: m, v: v, site: out.Site(m, v), alone: predict.Expected(a.Lik, predict.Exact, out.Mean, out.Variance)}
		a.single.Add([]float64{o.Y, r.alone}, o.Weight)
		k := int(o.Y)
		a.n[k]++
		r.draw = mix(uint64(a.n[k])<<1 | uint64(k))
		fs, xs := a.Entries(a.Fit, b, i)
		if a.most == 0 {
			a.most = min(max(pairKept/(1+len(fs)), fewRows), pairRows)
		}
		if a.bar[k] > 0 && r.draw > a.bar[k] {
			continue
		}
		r.features, r.values = slices.Clone(fs), slices.Clone(xs)
		if a.rows[k] = append(a.rows[k], r); len(a.rows[k]) >= 2*a.most {
			a.keep(k)
		}
	}
	return nil
}

// mix is a permutation of 64-bit numbers that scatters them (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// keep drops the rows outside the sample.
func (a *PairAUC) keep(k int) {
	rows := a.rows[k]
	slices.SortStableFunc(rows, func(x, y pairRow) int { return cmp.Compare(x.draw, y.draw) })
	if len(rows) > a.most {
		clear(rows[a.most:])
		a.rows[k], a.bar[k] = rows[:a.most], rows[a.most-1].draw
	}
}

// Merge adds the rows of o, which must have the same fit.
func (a *PairAUC) Merge(o *PairAUC) {
	if err := a.single.Merge(o.single); err != nil {
		panic(err) // both are of one kind
	}
	if o.most > 0 {
		a.most = min(cmp.Or(a.most, o.most), o.most)
	}
	for k := range a.rows {
		a.n[k] += o.n[k]
		if o.bar[k] > 0 {
			a.bar[k] = min(cmp.Or(a.bar[k], o.bar[k]), o.bar[k])
		}
		for _, r := range o.rows[k] {
			r.features = slices.Clone(r.features)
			for j, f := range r.features {
				id, err := a.Features().AddRaw(string(o.Features().Name(f)))
				if err != nil {
					panic(err) // they are in a dictionary of the same limits
				}
				r.features[j] = id
			}
			a.rows[k] = append(a.rows[k], r)
		}
		a.keep(k)
	}
}

// Clone returns an independent copy.
func (a *PairAUC) Clone() *PairAUC {
	c := *a
	c.Scorer, c.single, c.pair = a.Scorer.Clone(), a.single.Clone().(metric.Number), kernels.Batch{}
	for k := range c.rows {
		c.rows[k] = slices.Clone(a.rows[k])
	}
	return &c
}

// Size is the approximate memory held, in bytes.
func (a *PairAUC) Size() int64 {
	n := 256 + FitSize(a.Fit) + a.single.Size()
	for k := range a.rows {
		for i := range a.rows[k] {
			n += 128 + 12*int64(len(a.rows[k][i].values))
		}
	}
	return n
}

// Value is the area; NaN if one of the responses does not occur.
// Errors: a predictor that is not finite; the cause of a cancelled ctx.
func (a *PairAUC) Value(ctx context.Context) (float64, error) {
	if a.n[0] == 0 || a.n[1] == 0 {
		return math.NaN(), nil
	}
	a.keep(0)
	a.keep(1)
	zeros, ones := a.rows[0], a.rows[1]
	most := a.pairs()
	if int64(len(zeros)) == a.n[0] && int64(len(ones)) == a.n[1] && len(zeros)*len(ones) <= most {
		return a.every(ctx, ones, zeros)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	one, zero := drawn(ones), drawn(zeros)
	off := 0.0
	for i := range most {
		if i%64 == 0 {
			if err := stop.Cause(ctx); err != nil {
				return 0, err
			}
		}
		p, q := one(rng), zero(rng)
		x, err := a.judge(p, q)
		if err != nil {
			return 0, err
		}
		off += x - rankScore(p.alone, q.alone)
	}
	return min(max(a.single.Value()+off/float64(most), 0), 1), nil
}

// every is the area over all pairs.
func (a *PairAUC) every(ctx context.Context, ones, zeros []pairRow) (float64, error) {
	sum, n := 0.0, 0.0
	for i := range ones {
		if err := stop.Cause(ctx); err != nil {
			return 0, err
		}
		for j := range zeros {
			x, err := a.judge(&ones[i], &zeros[j])
			if err != nil {
				return 0, err
			}
			w := ones[i].weight * zeros[j].weight
			sum, n = sum+w*x, n+w
		}
	}
	return sum / n, nil
}

// drawn returns a function that draws from rows, in proportion to their weights.
func drawn(rows []pairRow) func(*rand.Rand) *pairRow {
	upTo, total, plain := make([]float64, len(rows)), 0.0, true
	for i := range rows {
		total += rows[i].weight
		upTo[i], plain = total, plain && rows[i].weight == 1
	}
	return func(rng *rand.Rand) *pairRow {
		if plain {
			return &rows[rng.IntN(len(rows))]
		}
		i, _ := slices.BinarySearch(upTo, total*rng.Float64())
		return &rows[min(i, len(rows)-1)]
	}
}

// pairs is how many pairs are judged.
func (a *PairAUC) pairs() int {
	entries, rows := 0, 0
	for k := range a.rows {
		for i := range a.rows[k] {
			entries, rows = entries+len(a.rows[k][i].values), rows+1
		}
	}
	each := 20 * (1 + 2*float64(entries)/float64(rows))
	switch f := a.Fit; f.Covariance.Form {
	case gauss.Full:
		each += float64(entries) / float64(rows) * float64(len(f.Beliefs))
	case gauss.LowRank:
		each += float64(entries) / float64(rows) * float64(f.Covariance.Rank)
	}
	return int(min(max(pairWork/each, fewPairs), mostPairs))
}

// rankScore is 1 if a is larger, 1/2 for a tie.
func rankScore(a, b float64) float64 {
	switch {
	case a > b:
		return 1
	case a == b:
		return 0.5
	}
	return 0
}

// Errors of a predictor that has moved by d as rows were left out, since no row is learnt again:
// pairBend d² on the scale of the link, as the likelihood of the other rows is not a parabola;
// pairSpread d if the posterior is averaged over variances, since it moves less under each of them.
const (
	pairBend   = 0.2
	pairSpread = 0.1
)

// tieTolerance is the difference below which two predictors that moved by these amounts when the
// pair was left out are a tie: levels about which the other rows say the same tie, and the left-out
// rows must not decide between them.
func (a *PairAUC) tieTolerance(by ...float64) (e float64) {
	for _, d := range by {
		e += pairBend * d * d / a.Lik.Traits().Scale
		if a.LearntParameters().Varied {
			e += pairSpread * math.Abs(d)
		}
	}
	return e
}

// judge is first of the expected responses of the two rows given all others.
func (a *PairAUC) judge(one, zero *pairRow) (float64, error) {
	p := &a.pair
	p.Reset()
	for _, r := range []*pairRow{one, zero} {
		for k, f := range r.features {
			p.Add(f, r.values[k])
		}
		p.EndRow()
		p.Offset = append(p.Offset, r.shift)
	}
	d, v, err := a.Difference(p, 0, 1)
	if err != nil {
		return 0, err
	}
	if v == 0 { // predictors that differ by a constant, whatever the other rows say
		return rankScore(d, 0), nil
	}
	cov := 0.5 * (one.v + zero.v - v)
	mean, variance, ok := predict.LeavePairOut([2]float64{one.m, zero.m}, [2]float64{one.v, zero.v}, cov, [2]predict.Site{one.site, zero.site})
	if !ok {
		return rankScore(one.alone, zero.alone), nil
	}
	if math.Abs(mean[0]-mean[1]) <= a.tieTolerance(one.m-mean[0], zero.m-mean[1]) {
		return 0.5, nil
	}
	var y [2]float64
	for k := range y {
		y[k] = predict.Expected(a.Lik, predict.Exact, mean[k], variance[k])
	}
	return rankScore(y[0], y[1]), nil
}

package stream

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// responseSummary summarises the responses in the order they came: whether the filter predicted
// them better than their own mean does, and whether equal ones came in long runs, which ruins one
// pass. It begins after responseSummaryBegins rows: few rows show nothing, and small groups are
// spared the memory. Cost: about ten additions a row.
type responseSummary struct {
	n, pairs      float64     // rows, and pairs of successive rows
	first, last   float64     // responses; the sums below use y - first
	power         [5]float64  // sums of the powers of y - first, or of their logarithms with logs
	product       float64     // sum of the products of successive ones
	logs          bool        // y is positive and varies in proportion to its mean
	runs          float64     // of ones, for binary responses
	w, wy, wd, wq float64     // sums of the rows' weights, and of these times y, y - first and its square
	trials, known float64     // weighted sums of the trials, and of the terms of the log density that do not involve the mean
	alone         float64     // log density under the mean so far alone, if not from the sums
	scale         lik.Learner // of the responses about that mean, if the filter's is learnt; nil for counts
	early         float64     // log density by which the mean alone was ahead after growingEarly rows
	learning      learningCost
	calibration
	furthest   furthest
	neighbours lik.Dependence // in the predictions before they came
	middle     lik.Middle     // of these
	stands     *stands        // of missing numbers
	crosses    *crosses       // of these after the first endsBegin rows, nil before
	lately     [2]expected    // of the rows since the last power of two, and of those before from the one before it
}

// responseSummarySize is the memory of a summary in bytes.
const responseSummarySize = 448

// The number of rows before the summary. Responses whose expectation grows exponentially are
// predicted too large by any factor while weights are many relative to the rows: their summary begins
// earlier, but the first of its rows, which cost vague priors most, do not count against the weights
// once there are several times as many.
const (
	responseSummaryBegins = 8
	growingSummaryBegins  = 4
	growingEarly          = responseSummaryBegins - growingSummaryBegins
	growingSeveral        = 7 * growingEarly
)

// likelihoodTraits are the properties of a likelihood that a summary needs.
type likelihoodTraits struct {
	binary, trials bool
	sized          bool         // counts whose shape is learnt
	heavy          bool         // y lies around the predictor, with heavy tails
	growing        bool         // the predictor is the logarithm of the mean of y
	counts         bool         // y is a whole number
	positive       bool         // y is not below 0, and its predictor is the logarithm of its mean
	homoscedastic  bool         // the variance of y is a dispersion, which is learnt
	constant       lik.Constant // nil if the mean alone has no score from sums
	keeper         lik.Keeper   // constant, if it needs a term of each row
}

func likelihoodTraitsOf(l lik.Likelihood) likelihoodTraits {
	t, c := l.Traits(), lik.ConstantOf(l)
	k, _ := c.(lik.Keeper)
	return likelihoodTraits{binary: t.Binary, trials: t.Trials, heavy: t.Heavy(), growing: t.LogMean, counts: t.Counts, positive: t.LogMean && (t.Counts || t.Relative), constant: c, keeper: k}
}

// add adds a row.
func (c *responseSummary) add(o lik.Obs, of *likelihoodTraits) {
	y := o.Y
	if of.binary && y == 1 && (c.n == 0 || c.last != 1) {
		c.runs++
	}
	if of.trials {
		y /= o.Trials
		c.trials += o.Weight * o.Trials
	}
	if of.keeper != nil {
		c.known += o.Weight * of.keeper.Known(o)
	}
	if of.sized {
		c.alone += lik.CountAlone(o, c.sums())
	}
	if c.n == 0 {
		c.first = y
	} else {
		c.pairs++
		c.product += c.apart(y, c.first) * c.apart(c.last, c.first)
	}
	c.last = y
	c.n++
	d, e := y-c.first, c.apart(y, c.first)
	c.power[1] += e
	c.power[2] += e * e
	c.power[3] += e * e * e
	c.power[4] += e * e * e * e
	c.w += o.Weight
	c.wy += o.Weight * o.Y
	c.wd += o.Weight * d
	c.wq += o.Weight * d * d
}

// apart is how far the response y is from another, for the sums that show the order of the rows.
func (c *responseSummary) apart(y, from float64) float64 {
	if c.logs {
		return math.Log(y / from)
	}
	return y - from
}

// addAlone adds response o, in a unit whose likelihood is l, to the baseline. The first one cannot
// be predicted from others: begun counts it as the filter does.
func (c *responseSummary) addAlone(l lik.Likelihood, o lik.Obs, unit Unit) {
	if !(c.w > 0) {
		return
	}
	if c.scale != nil {
		l = c.scale
	}
	s := l.Traits().Predictor(unit.of(c.first + c.wd/c.w))
	logp, d1, d2 := l.LogLik(o, s)
	c.alone += logp - o.Weight*math.Log(unit.Scale)
	if c.scale != nil {
		c.scale.Learn(o, lik.Tilted{Alpha: d1, Beta: -d2}, s, 0)
	}
}

// clone returns an independent copy.
func (c *responseSummary) clone() *responseSummary {
	if c == nil {
		return nil
	}
	own := *c
	if c.scale != nil {
		own.scale = c.scale.CloneLearner()
	}
	own.crosses, own.stands = c.crosses.clone(), c.stands.clone()
	return &own
}

// renumberedSummary is that of another state, whose features s numbers by id.
func (s *State) renumberedSummary(c *responseSummary, id func(int) int) *responseSummary {
	if c == nil || c.crosses == nil && c.stands == nil {
		return c
	}
	own := *c
	if own.stands = c.stands.renumbered(id); c.crosses != nil {
		own.crosses = s.renumbered(c.crosses, id)
	}
	return &own
}

// sums are those over the responses so far.
func (c *responseSummary) sums() lik.Sums {
	return lik.Sums{Weight: c.w, Y: c.wy, Trials: c.trials, Known: c.known, Centred: c.wd, Square: c.wq}
}

// from returns the summary relative to another first response, except for the ends of product.
func (c responseSummary) from(first float64) responseSummary {
	e, p := c.apart(c.first, first), c.power
	shift := c.first - first
	c.first = first
	c.power[1] = p[1] + c.n*e
	c.power[2] = p[2] + 2*e*p[1] + c.n*e*e
	c.power[3] = p[3] + 3*e*p[2] + 3*e*e*p[1] + c.n*e*e*e
	c.power[4] = p[4] + 4*e*p[3] + 6*e*e*p[2] + 4*e*e*e*p[1] + c.n*e*e*e*e
	c.product += 2*e*p[1] + c.pairs*e*e
	c.wq += 2*shift*c.wd + c.w*shift*shift
	c.wd += c.w * shift
	return c
}

// merged returns the summary of both, nil if neither has one.
func merged(c, o *responseSummary) *responseSummary {
	if c == nil || o == nil || o.n == 0 {
		if c == nil {
			return o.clone()
		}
		return c
	}
	if c.n == 0 {
		*c = *o.clone()
		return c
	}
	t := o.from(c.first)
	c.stands = c.stands.plus(o.stands)
	for k := range t.power {
		c.power[k] += t.power[k]
	}
	c.n, c.pairs, c.runs, c.product = c.n+t.n, c.pairs+t.pairs, c.runs+t.runs, c.product+t.product
	c.w, c.wy, c.wd, c.wq = c.w+t.w, c.wy+t.wy, c.wd+t.wd, c.wq+t.wq
	c.trials, c.known, c.alone, c.early, c.last = c.trials+t.trials, c.known+t.known, c.alone+t.alone, c.early+t.early, t.last
	if c.scale != nil {
		c.scale.Merge(o.scale)
	}
	c.merge(t.calibration)
	c.learning.merge(t.learning)
	c.furthest.merge(t.furthest)
	c.neighbours.Merge(&t.neighbours)
	c.middle.Merge(t.middle)
	if c.crosses != nil && o.crosses != nil {
		c.crosses.merge(o.crosses)
	} else if o.crosses != nil {
		c.crosses = o.crosses
	}
	for k := range c.lately {
		c.lately[k].merge(t.lately[k])
	}
	return c
}

// baseline approximates the log predictive density of the responses under their running mean alone:
// that under the best constant, less half the log of the rows' weight for each parameter, the cost
// of learning it as they come. dispersion 0 means that it is learnt, too. Counts and gamma responses
// whose shape is learnt have the density under their mean and shape as these come, and responses
// with heavy tails that under their mean and dispersion. ok is false for families without a baseline.
func (c *responseSummary) baseline(of *likelihoodTraits, dispersion float64) (logZ float64, ok bool) {
	switch {
	case !(c.w > 1):
		return 0, false
	case of.sized || of.heavy || c.scale != nil:
		return c.alone, true
	case of.constant == nil:
		return 0, false
	}
	logZ, ok = of.constant.Best(c.sums(), dispersion)
	cost := 0.5 * math.Log(c.w)
	if dispersion == 0 {
		cost *= 2
	}
	return logZ - cost, ok
}

// begun records what only the first rows show. The filter's log density of the rows so far is score.
func (c *responseSummary) begun(p *Plan, score float64) {
	of := &p.answers
	if c.n == 1 && (of.heavy || c.scale != nil) {
		c.alone = score
	}
	if c.n == growingEarly && of.growing {
		base, _ := c.baseline(of, p.head.Dispersion)
		c.early = base - score
	}
}

// learningCost is the log density that a stream loses because it has to learn its weights, even those
// that are 0. A row whose predictor has variance v, and whose likelihood curvature κ, costs ½ log(1 + vκ)
// on average, which is ½ log |Σ₀|/|Σₙ| of all. A row counts as much as under a prior that is worth one
// row at most: a wider one predicts worse for no good. The zero value is no cost.
type learningCost struct{ log, rest float64 } // of Π 1/(1 + vκ): the logarithm of a part, and the rest; 0 stands for 1

// add adds a row that multiplies the variance of its predictor by shrinks = 1/(1 + vκ).
func (c *learningCost) add(shrinks float64) {
	if c.rest == 0 {
		c.rest = 1
	}
	if c.rest *= max(shrinks, 0.5); c.rest < 1e-200 || c.rest > 1e200 {
		c.log, c.rest = c.all(), 1
	}
}

func (c *learningCost) all() float64 {
	if c.rest == 0 {
		return 0
	}
	return c.log + math.Log(c.rest)
}

func (c *learningCost) merge(o learningCost) { c.log, c.rest = c.all()+o.all(), 1 }

// learntBy is the number of rows for each weight from which what it costs to learn them says nothing of
// predictions later on: with fewer, these lose an eighth of a nat a row or more by the same.
const learntBy = 4

// of returns the cost of a stream of n rows and so many weights, 0 if these are many. Weights that drift
// cost as much again and again, of which no more counts than what they cost once.
func (c *learningCost) of(n float64, weights int) float64 {
	if n < learntBy*float64(weights) {
		return 0
	}
	return max(0, min(-0.5*c.all(), 0.5*float64(weights)*math.Log1p(n)))
}

// worse is the log evidence in nats by which the mean alone must be ahead, beyond what it costs to learn
// the weights. Under the model itself that happens in less than one run of a thousand, because the ratio
// of the mean's density to the model's has expectation 1 (Markov's inequality).
const worse = 7

// order reports whether equal responses came in long runs: neighbours correlate by more than a
// half, or there are less than half as many runs of ones as in random order, and random orders
// would show that less than once in a million.
func (c *responseSummary) order(of *likelihoodTraits) bool {
	if of.binary {
		ones := c.power[1]
		if c.first == 1 {
			ones += c.n
		}
		zeros := c.n - ones
		if ones < 1 || zeros < 1 || c.runs > 0.5*ones*(zeros+1)/c.n {
			return false
		}
		return logRuns(c.runs, ones, zeros) < math.Log(1e-6)
	}
	if c.pairs < 30 {
		return false
	}
	p, m := &c.power, c.power[1]/c.n
	square := p[2] - c.n*m*m
	fourth := p[4] - 4*m*p[3] + 6*m*m*p[2] - 3*c.n*m*m*m*m
	if !(square > 0) || square*square < 30*fourth { // a few rows that differ from the rest decide the correlation
		return false
	}
	r := (c.product - 2*m*p[1] + c.pairs*m*m) / square
	return r > 0.5 && r*math.Sqrt(c.pairs) > 5
}

// logRuns is the log probability that this many ones among zeros in random order form at most this
// many runs: k runs have probability C(ones-1, k-1) C(zeros+1, k) / C(ones+zeros, ones).
func logRuns(most, ones, zeros float64) float64 {
	choose := func(n, k float64) float64 {
		if k < 0 || k > n {
			return math.Inf(-1)
		}
		return special.LogFactorial(n) - special.LogFactorial(k) - special.LogFactorial(n-k)
	}
	all, top, sum := choose(ones+zeros, ones), math.Inf(-1), 0.0
	for k := most; k >= 1 && most-k < 1000; k-- {
		p := choose(ones-1, k-1) + choose(zeros+1, k) - all
		if math.IsInf(top, -1) {
			top = p
		}
		sum += math.Exp(p - top)
		if p < top-40 {
			break
		}
	}
	return top + math.Log(sum)
}

// farInnovation is a mean log density of innovations, in nats a row, that is an artefact of the
// linearisation: innovations ten standard deviations wide throughout would give 10²/2 and a
// normalising term of a few nats, which binary responses and counts, whose variance follows the
// mean, do not reach.
const farInnovation = 50

// worseThanMean reports whether the rows' mean alone, with log density base, predicts them better
// than f's filter of so many weights, whose log density was score.
func (c *responseSummary) worseThanMean(f *kernels.Fit, p *Plan, weights int, score float64) (base float64, is bool) {
	if c == nil || innovates(p.rule) && !p.linear { // its noise is measurement noise
		return 0, false
	}
	dispersion := f.Dispersion
	if p.Learns || p.unitNoise {
		dispersion = 0
	}
	base, ok := c.baseline(&p.answers, dispersion)
	lead := base - score
	if c.n > growingSeveral {
		lead -= max(c.early, 0)
	}
	if !p.Drifts || p.Model.Options.AutoNoise { // a given noise is what is judged
		lead -= c.learning.of(c.n, weights)
	}
	return base, ok && lead > worse
}

// unexplained is the correlation of neighbouring residuals above which x does not explain the order of
// the responses, as it does where it has the hour of the day: there it is about 0, in rows that were
// put in runs 0.4 to 0.8.
const unexplained = 0.2

// notes returns the notes on a summary over whose rows f's filter, of so many weights, had the log density score; exact says
// that it has the posterior in any order of the rows, codes is a note on numbers far from the others, and
// curve that on a column.
func (c *responseSummary) notes(f *kernels.Fit, p *Plan, weights int, score float64, exact bool, codes, curve string) (status string) {
	if base, bad := c.worseThanMean(f, p, weights, score); bad {
		status = kernels.Join(status, fmt.Sprintf("predicted before they were learnt, the rows have a log loss of %.4g, worse than the %.4g of their mean alone", -score/c.w, -base/c.w))
	}
	if innovates(p.rule) && !p.Model.Lik.Traits().Gaussian && f.LogEvidence < -farInnovation*float64(f.N) {
		status = kernels.Join(status, fmt.Sprintf("log_evidence is that of innovations far beyond their variance, %.3g nats a row: one linearisation does not reach them, and measurement noise that follows the mean vanishes where the mean is near 0 or 1", -f.LogEvidence/float64(f.N)))
	}
	if c != nil && p.answers.growing {
		status = kernels.Join(status, c.expectedNote(&p.answers))
	}
	if c != nil && !p.Drifts {
		status = kernels.Join(status, c.furthest.note(&p.answers))
	}
	switch {
	case c == nil || p.Drifts: // c is nil for few rows
	case c.order(&p.answers) && (c.neighbours.Sorted() || !exact && c.neighbours.Correlation() > unexplained):
		status = kernels.Join(status, "equal responses come in long runs, which ruins one pass over the rows: put them in random order, or use a method that keeps them, such as laplace")
	default:
		status = kernels.Join(kernels.Join(status, curve), c.neighbours.Note())
		if p.calibrates && !innovates(p.rule) {
			status = kernels.Join(status, c.calibration.note(p.Model.Lik))
		}
	}
	if c != nil && p.noise && p.Exact {
		status = kernels.Join(status, c.middle.Note(codes != ""))
	}
	if c != nil {
		status = kernels.Join(status, kernels.SamplingNote(p.Model, c.n, c.w))
	}
	return status
}

// ends are those of the range of binary responses, trials and counts that some were at, and whether any
// was between them.
type ends uint8

const (
	atBottom ends = 1 << iota
	atTop
	between
)

func endOf(o lik.Obs) ends {
	switch {
	case o.Y == 0:
		return atBottom
	case o.Y == max(o.Trials, 1):
		return atTop
	}
	return between
}

// oneSided is the note on binary responses, trials or counts that have all been at one end of their
// range, "" if they have not, if they are few, or if earlier rows taught the intercept.
func (s *State) oneSided() string {
	c, m, of := s.responses, s.plan.Model, &s.plan.answers
	if c == nil || !(c.w > 0) || m.NoIntercept || m.Start != nil && m.Start.N > 0 {
		return ""
	}
	switch top := of.trials && c.wy == c.trials || of.binary && c.wy == c.w; {
	case top && s.early&^atTop == 0:
		return kernels.OneSidedNote(1)
	case (of.trials || of.binary || of.counts) && c.wy == 0 && s.early&^atBottom == 0:
		return kernels.OneSidedNote(0)
	}
	return ""
}

// checksFixed reports whether rows are checked against a parameter that is not learnt.
func (p *Plan) checksFixed() bool {
	if t := p.Model.Lik.Traits(); t.Gaussian && !t.LogMean {
		return !p.Learns && !p.unitNoise && (p.linear || !innovates(p.rule))
	}
	return !p.scores()
}

// summarise adds a response y, which is o in its unit, to the summary, which begins with the first
// that has weight; r is its update of the first member.
func (s *State) summarise(y, o lik.Obs, r *met) {
	p := s.plan
	if y.Weight > 0 && s.told >= p.begins {
		if s.responses == nil {
			if s.responses = (&responseSummary{logs: p.Model.Lik.Traits().Relative}); p.checksFixed() {
				s.fixed = lik.NewFixed(p.Model.Lik)
			}
			if p.scores() && !p.answers.counts {
				s.responses.scale, _ = lik.NewLearner(s.fixedLikelihood(), 0)
			}
		}
		if p.answers.heavy || s.responses.scale != nil {
			unit := Unit{Scale: 1}
			if s.units != nil && s.units.y != nil {
				unit = Unit{s.units.y.unit.Center, s.units.y.unit.scale()}
			}
			s.responses.addAlone(s.fixedLikelihood(), o, unit)
		}
		if p.answers.growing {
			s.responses.expect(y, r.m, r.v)
		}
		s.responses.add(y, &p.answers)
		s.responses.learning.add(1 - r.v*r.t.Beta)
		by := lik.Residual(r.t.Alpha, r.t.Beta)
		if s.responses.neighbours.Add(y, by); p.noise && p.Exact {
			s.responses.middle.Add(y, r.t.Alpha, r.t.Beta)
		}
		if of := &p.answers; !p.Drifts && (of.positive || of.homoscedastic) {
			s.responses.furthest.meet(s.likelihoodInUnit(0), &p.answers, y, o, s.units.responses(), r.m, r.v)
		}
		switch {
		case p.Drifts || !p.calibrates:
		case p.predicts && o.Weight == 1:
			s.responses.addBinaryRow(o.Y, r.t.LogZ)
		default:
			s.responses.addRow(s.likelihoodInUnit(0), o, r.m, r.v)
		}
	}
	if s.fixed != nil && s.responses != nil {
		s.fixed.Observe(s.fixedLikelihood(), o, r.m, r.v)
	}
}

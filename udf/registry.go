package udf

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/metric"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/udf/internal/capi"
)

// Version is the version of bglm.
const Version = "v0.1.0"

// Function documents a SQL function.
type Function struct {
	Name        string
	Kind        string // "aggregate" or "scalar"
	Signature   string
	Description string
	Example     string // a statement that runs as it stands
	Options     []string
	Result      string // its type, or types; FIT is that of the fitting functions
}

type entry struct {
	Function
	agg    *capi.Aggregate
	scalar *capi.Scalar
}

func anys(counts ...int) [][]*capi.Type {
	var out [][]*capi.Type
	for _, n := range counts {
		p := make([]*capi.Type, n)
		for i := range p {
			p[i] = capi.TAny
		}
		out = append(out, p)
	}
	return out
}

var argNames = regexp.MustCompile(`\w+`)

func aggregate(name, sig, doc, example string, options []string, arity []int, result *capi.Type,
	update func([]capi.Vec, capi.Slots) error, finalize func([]capi.State, *capi.Col) error) entry {
	return entry{Function: Function{name, "aggregate", name + sig, doc, example, options, typeName(result)},
		agg: &capi.Aggregate{Name: name, Params: anys(arity...), Result: result,
			Update: func(args []capi.Vec, slots capi.Slots) error {
				// With ORDER BY inside the call DuckDB asks nobody between chunks.
				if err := interruptCause(0); err != nil {
					return err
				}
				return worded(update(args, slots))
			},
			Finalize: func(states []capi.State, out *capi.Col) error { return worded(finalize(states, out)) },
			Args:     argNames.FindAllString(sig, -1), RowFields: option.RowFields()}}
}

// eachGroup is the finalizer that writes the states of groups; those without rows are NULL.
func eachGroup[S capi.State](write func(s S, out *capi.Col) error) func([]capi.State, *capi.Col) error {
	return func(states []capi.State, out *capi.Col) error {
		for _, s := range states {
			if s == nil {
				out.Null()
			} else if err := write(s.(S), out); err != nil {
				return err
			}
		}
		return nil
	}
}

func scalar(name, sig, doc, example string, options []string, arity []int, result *capi.Type, volatile bool,
	call func([]capi.Vec, int, *capi.Col) error) entry {
	return entry{Function: Function{name, "scalar", name + sig, doc, example, options, typeName(result)},
		scalar: &capi.Scalar{Name: name, Params: anys(arity...), Result: result, Volatile: volatile, Call: inWords(call)}}
}

func inWords(call func([]capi.Vec, int, *capi.Col) error) func([]capi.Vec, int, *capi.Col) error {
	return func(args []capi.Vec, n int, out *capi.Col) error { return worded(call(args, n, out)) }
}

// typeName is the type of a result as a person would call it.
func typeName(t *capi.Type) string {
	switch t {
	case fitType:
		return "FIT"
	case classesType:
		return "FIT of classes"
	case gpType:
		return "FIT of a process"
	}
	return strings.ReplaceAll(t.String(), beliefsType.String(), "BELIEF[]")
}

// also adds overloads to a scalar whose first argument has just this type.
func (e entry) also(result, first *capi.Type, call func([]capi.Vec, int, *capi.Col) error, arity ...int) entry {
	params := anys(arity...)
	for _, p := range params {
		p[0] = first
	}
	if t := typeName(result); !slices.Contains(strings.Split(e.Result, " or "), t) {
		e.Result += " or " + t
	}
	e.scalar.Also = append(e.scalar.Also, &capi.Scalar{Name: e.Name, Params: params, Result: result, Call: inWords(call), Constant: e.scalar.Constant, Check: e.scalar.Check})
	return e
}

// checks adds what looks at argument k when a call is planned, where it is constant, to the
// overloads so far and those to come.
func (e entry) checks(k int, check func(v *capi.Vec) error) entry {
	for _, f := range append([]*capi.Scalar{e.scalar}, e.scalar.Also...) {
		f.Constant, f.Check = k, func(v *capi.Vec) error { return worded(check(v)) }
	}
	return e
}

// alsoClasses adds overloads for the fits of bglm_softmax, in each layout.
func (e entry) alsoClasses(result *capi.Type, call func([]capi.Vec, int, *capi.Col) error, arity ...int) entry {
	for _, t := range append(earlier(classBelief), classesType) {
		e = e.also(result, t, call, arity...)
	}
	return e
}

var functionType = capi.ListOf(capi.StructOf(fld("name", capi.TVarchar), fld("kind", capi.TVarchar), fld("signature", capi.TVarchar),
	fld("description", capi.TVarchar), fld("options", capi.ListOf(capi.TVarchar)), fld("example", capi.TVarchar)))

var familyType = capi.ListOf(capi.StructOf(fld("family", capi.TVarchar), fld("link", capi.TVarchar), fld("description", capi.TVarchar)))

var stateType = capi.StructOf(fld("live_states", capi.TBigInt), fld("bytes", capi.TBigInt), fld("leaked", capi.TBigInt), fld("purged", capi.TBigInt),
	fld("memory", capi.TBigInt), fld("max_memory", capi.TBigInt), fld("threads", capi.TBigInt), fld("row_budget", capi.TBigInt))

const (
	tenRows        = "FROM (SELECT i, i % 3 = 0 AS late, 'A' || i % 2 AS origin FROM range(10) t(i))"
	exampleLaplace = "bglm_laplace(late, {origin: origin})"
	exampleXY      = "bglm_adf(late, {origin: origin}, {link: 'probit'} ORDER BY i)"
)

// entries is the list of all functions; adding one is a line in its group.
func entries() []entry {
	return slices.Concat(fitters(), mergers(), measures(), judges(), predictions(), summaries(), exports(), conversions(), about(), states())
}

// mergers join fits and passes over parts of the rows.
func mergers() []entry {
	return []entry{
		aggregate("bglm_merge", "(fit [, prior])",
			"Multiplies posteriors that were fitted to different parts of the rows, and counts their common prior once: Λ = ΣΛk - (K-1)Λ0. The common prior is the default prior of the fits, or the FIT given as the second argument if all parts started from that. Prior variances of columns of levels (option prior_variance) are taken from the parts and must be the same in all of them. Parts with priors of single features (option priors), or with a prior variance of a column of numbers, need a second argument that has these priors, such as bglm_from_beliefs(list, options) of their list. Without it the call is an error, because the priors would count in every part.",
			"SELECT bglm_merge(fit).n FROM (SELECT i % 2 AS part, "+exampleXY+" AS fit "+tenRows+" GROUP BY part);",
			nil, []int{1, 2}, fitType, updateMerge, eachGroup(writeMerge)),
		aggregate("bglm_newton_merge", "(state)",
			"Adds up the states of passes over parts of the rows, which bglm_newton_state made with the same options and columns. The result equals that of one pass over all rows, to rounding, whatever the parts and their order. NULLs are ignored.",
			"SELECT octet_length(bglm_newton_merge(s)) > 0 FROM (SELECT bglm_newton_state(late, {origin: origin}) AS s "+tenRows+" GROUP BY i % 2);",
			nil, []int{1}, capi.TBlob, updatePasses, eachGroup(writePasses)),
	}
}

// measures compare predictions with what was observed.
func measures() []entry {
	scored := "FROM (VALUES (true, 0.8), (false, 0.3), (true, 0.6), (false, 0.7)) t(y, p)"
	return []entry{
		numberMetric("bglm_auc", "(y, p [, weight])", "Area under the ROC curve, with ties as in the trapezoid rule. NULL if only one class occurs.",
			"SELECT bglm_auc(y, p) "+scored+";", metric.AUC, metric.Outcome, metric.Score),
		numberMetric("bglm_log_loss", "(y, p [, weight])", "Log loss: the mean of -log of the probability given to the observed outcome. Infinity if an observed outcome had probability 0.",
			"SELECT round(bglm_log_loss(y, p), 6) "+scored+";", metric.LogLoss, metric.Outcome, metric.Probability),
		numberMetric("bglm_brier", "(y, p [, weight])", "Brier score: the mean squared difference between the outcome (0 or 1) and its probability.",
			"SELECT round(bglm_brier(y, p), 6) "+scored+";", metric.Brier, metric.Outcome, metric.Probability),
		numberMetric("bglm_rmse", "(y, p [, weight])", "Root mean squared error: the root of the mean squared difference between observed and predicted.",
			"SELECT round(bglm_rmse(y, p), 6) FROM (VALUES (1.0, 1.5), (2.0, 1.0)) t(y, p);", metric.RMSE, metric.Response, metric.Prediction),
		aggregate("bglm_calibration", "(y, p [, bins [, weight]])", "Calibration table: the observed share and the mean prediction in each of a number of equal-width bins of the probability (default 10). Empty bins are left out."+countedAs+" n is the sum of the weights, to the nearest whole number.",
			"SELECT unnest(bglm_calibration(y, p, 2), recursive := true) "+scored+";", nil, []int{2, 3, 4}, calibrationType,
			updateMetric([]metric.Arg{metric.Outcome, metric.Probability}, 1, freshCalibration), finalizeMetric(appendBins)),
		numberMetric("bglm_coverage", "(y, lo, hi [, weight])", "Share of observations inside their interval, ends included. lo > hi is an error.",
			"SELECT bglm_coverage(y, lo, hi) FROM (VALUES (1.0, 0.5, 1.5), (3.0, 0.0, 1.0)) t(y, lo, hi);", metric.Coverage, metric.Response, metric.Lower, metric.Upper),
	}
}

// judges say over rows what a fit is worth and what moves it.
func judges() []entry {
	return []entry{
		aggregate("bglm_loo", "(fit, y, x [, {weight, offset, trials}])",
			"Leave-one-out cross-validation without refitting: how well the fit predicts each of its own rows from all others. The names are those of R's package loo: elpd_loo is the sum of the leave-one-out log densities in nats (those of bglm_loo_predict), se_elpd_loo its standard error, p_loo the effective number of weights and looic -2 elpd_loo; elpd_waic, p_waic and waic are those of WAIC. n_warned counts rows that weigh so much that their density is unreliable. worst is the largest value of reach (see bglm_loo_predict), read like Pareto's k: if it is over 0.5, refit without those rows to be sure. n_failed counts rows without a density; the sums are then NULL. status reports both, and whether the mean of the rows alone predicts them better, as it does if the offset of the fit is left out. A learnt dispersion (gaussian) or shape (gamma, negbinomial) is averaged over, and each row is left out of it too. A row of weight w counts as w rows, of which one is left out; n, n_warned and n_failed count rows whatever their weight.",
			"SELECT round(l.elpd_loo, 3) AS elpd_loo, round(l.se_elpd_loo, 3) AS se, round(l.p_loo, 3) AS p_loo, l.status FROM (SELECT bglm_loo(fit, late, {origin: origin}) AS l "+tenRows+", (SELECT "+exampleLaplace+" AS fit "+tenRows+"));",
			option.For("loo").Keys(), []int{3, 4}, looType, updateLOO, written(writeLOO)),
		aggregate("bglm_loo_auc", "(fit, y, x [, {weight, offset, trials}])",
			"The leave-one-out area under the ROC curve of a fit of 0/1 responses on its own rows. Each pair of a 1 and a 0 is predicted from all other rows (leave-pair-out), so that the area is 0.5 if x says nothing; rows left out one at a time and ranked together give less than that. Both rows are taken out of the joint posterior without refitting. Up to 100,000 pairs are evaluated, fewer if covariances are large. If there are more, a sample of them corrects the area from single rows, to about 0.002. NULL if only one response occurs. A row of weight w counts as w rows, of which a pair has one.",
			"SELECT round(bglm_loo_auc(fit, late, {origin: origin}), 4) AS auc "+tenRows+", (SELECT "+exampleLaplace+" AS fit "+tenRows+");",
			option.For("loo").Keys(), []int{3, 4}, capi.TDouble, updateLOOAUC, written(writeLOOAUC)),
		aggregate("bglm_loo_compare", "(fits, y, x [, {weight, offset, trials}])",
			"Compares several fits of the same rows by leave-one-out, the best first. fits is a STRUCT of FITs by name, or MAP(VARCHAR, FIT); NULLs among them are left out. x has the columns of all fits, or is a STRUCT with an x for each fit by name. The result is a LIST(STRUCT) of name, the fields of bglm_loo, elpd_diff (the sum of the differences from the best) with its standard error se_diff, weight (by stacking: the mixture of the fits that predicts left-out rows best) and log_evidence. A difference of less than two or three se_diff says little. A row of weight w counts as w rows, of which one is left out.",
			"SELECT c.name, round(c.elpd_diff, 3) AS elpd_diff, round(c.se_diff, 3) AS se_diff, round(c.weight, 3) AS weight FROM (SELECT unnest(bglm_loo_compare({with_origin: a, without: b}, late, {origin: origin, one: 1})) AS c "+tenRows+", (SELECT "+exampleLaplace+" AS a, bglm_laplace(late, {one: 1}, {intercept: false}) AS b "+tenRows+"));",
			option.For("loo_compare").Keys(), []int{3, 4}, compareType, updateCompare, written(writeCompare)),
		aggregate("bglm_effects", "(fit, x, column [, options])",
			"The effect of a column on the expected response, averaged over the rows. For a column of numbers this is the average slope (contrast dY/dX) or, with the option step, the average effect of adding step. For a column of levels it is the average comparison of each level with the first one, or with the option reference, computed as if every row had that level. The column '*' stands for all columns that the fit knows. Mean, standard deviation, interval and P(> 0) are those of the posterior, by the delta method or, with the option draws, from joint draws of the weights. The definitions are those of R's marginaleffects (avg_slopes, avg_comparisons); {prediction: 'plugin'} gives its numbers. Interactions (STRUCTs in x) change with their columns; columns that are computed from the column in another way, such as its square, do not. For their joint effect give in place of column another version of x, a STRUCT, as in bglm_effects(fit, {x: x, square: x**2}, {x: x + 1, square: (x + 1)**2}): the effect is the average change from x to it or, with step as the distance between the two, the average slope halfway, which is that of the column if the step is short. The offset of the other version is option column_offset, if it is another. Rows with a NULL number in the column are left out. Every row is predicted twice for every level: 10,000 rows and 1,200 levels take some fifteen seconds of processor time if the covariance is an arrowhead. For a fit of classes the effects are on the probability of each class, whose name stands before the contrast ('a: dY/dX').",
			"SELECT unnest(bglm_effects(fit, {origin: origin}, 'origin'), recursive := true) "+tenRows+", (SELECT "+exampleLaplace+" AS fit "+tenRows+");",
			option.For("effects").Keys(), []int{3, 4}, effectsType, updateEffects, written(writeEffects)),
		aggregate("bglm_robust", "(fit, y, x [, cluster] [, options])",
			"The FIT with a robust (sandwich) covariance, computed from the rows that it has learnt. Standard errors are then robust to variances that differ between rows and, with cluster, to dependence between the rows of a cluster. The means stay the same. The covariance equals that of R's sandwich and vcovCL if the prior says little and the link is canonical (logit, log of poisson, identity of gaussian): for others, such as probit, cloglog and log of gamma, the curvature here is that of the rows as observed, in R the expected one, and with few rows standard errors differ by some percent. What the prior contributes is kept, and so is the width due to learnt prior variances. The option type sets the correction for few rows: 'hc0' (the default, times G/(G-1) for G clusters), 'hc1', 'hc2' or 'hc3'. A row of weight w counts as w rows. The fit needs a full covariance, of up to 5,000 weights. Everything that is computed from the new FIT (bglm_summary, bglm_contrast, bglm_effects, intervals) has the robust errors.",
			"SELECT s.term, round(s.sd, 4) AS sd FROM (SELECT unnest(bglm_summary(robust)) AS s FROM (SELECT bglm_robust(fit, late, {origin: origin}, i // 2) AS robust "+tenRows+", (SELECT "+exampleLaplace+" AS fit "+tenRows+")));",
			option.For("robust").Keys(), []int{3, 4, 5}, fitType, updateRobust, written(writeRobust)),
		aggregate("bglm_ppc", "(fit, y, x, statistic [, options])",
			"Posterior predictive check: do responses simulated from the fit look like the observed ones? statistic is 'mean', 'sd', 'zeros' (the share of zeros), 'min' or 'max' of the responses. The result has the observed statistic, and its mean, sd and interval over simulations. Each simulation covers all rows and draws the weights, and a learnt dispersion or shape, anew. p is the share of simulations above the observed value (ties count half); p near 0 or 1 means that the model does not produce such data. The result depends on the rows and seed alone. The rows are kept in memory.",
			"SELECT c.n, c.observed, round(c.mean, 2) AS mean, round(c.p, 2) AS p FROM (SELECT bglm_ppc(fit, late, {origin: origin}, 'mean') AS c "+tenRows+", (SELECT "+exampleLaplace+" AS fit "+tenRows+"));",
			option.For("ppc").Keys(), []int{4, 5}, checkType, updateCheck, written(writeCheck)),
		aggregate("bglm_drivers", "(fit, x [, level | {level, weight}])",
			"Which columns move the predictions: for each column its share of the variance of the linear predictor over the rows. A share is Cov(part, whole) / Var(whole), which includes what the part has in common with other columns; shares add up to 1 and can be below 0. mean, sd and interval of the share are those of the posterior, from up to 512 draws of the weights (those of bglm_sample with seed 0; 64 if there are many weights). Uncertain weights vary the predictor too, so that a share can differ from that at the mean weights. spread is the standard deviation of the column's own part at the mean weights. The largest share comes first; shares are NULL if the predictor does not vary. A row of weight w counts as w rows.",
			"SELECT d.column, round(d.share, 3) AS share, round(d.spread, 3) AS spread FROM (SELECT unnest(bglm_drivers(fit, {origin: origin, i: i})) AS d "+tenRows+", (SELECT bglm_laplace(i < 5, {origin: origin, i: i}) AS fit "+tenRows+"));",
			option.For("drivers").Keys(), []int{2, 3}, driversType, updateDrivers, written(writeDrivers)),
	}
}

// predictions predict a row.
func predictions() []entry {
	return []entry{
		scalar("bglm_predict", "(fit, x [, prediction])",
			"Predicts the expected response. The argument prediction is 'exact' (the default: the weights are integrated out), 'mackay' (MacKay's moderation) or 'plugin' (at the mean weights). Features that the fit has not seen have their prior. For a fit of classes the result is a MAP with the probability of each class. The linear predictor is eta_mean of bglm_predict_dist. If its standard deviation sd is above 4 under a log link, the mean exp(eta_mean + sd²/2) would come from values that no row supports, and the result is exp(eta_mean + 2 sd).",
			"SELECT round(bglm_predict(fit, {origin: 'A1'}), 6) FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			nil, []int{2, 3}, capi.TDouble, false, callPredict).
			also(capi.TDouble, gpType, callPredictGP, 2, 3).
			alsoClasses(classProbs, callPredictClasses, 2, 3).checks(2, checkHow),
		scalar("bglm_predict_dist", "(fit, x [, level])",
			"Mean and variance of the linear predictor (eta_mean, eta_variance) and of the response, and a central interval (level 0.95): of the probability for binary responses, of a new response otherwise. If the field learnt of the fit has 'foretold', mean and variance of the predictor include these factors.",
			"SELECT bglm_predict_dist(fit, {origin: 'A1'}).eta_variance > 0 FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			nil, []int{2, 3}, distType, false, callPredictDist).
			also(distType, gpType, callPredictDistGP, 2, 3).checks(2, checkLevel),
		scalar("bglm_sample", "(fit, x, seed, draw)",
			"One draw of the expected response from the posterior of the weights. It depends on seed, draw and the features alone and is joint over x: all rows with equal seed and draw see the same weights, as Thompson sampling needs.",
			"SELECT round(bglm_sample(fit, {origin: 'A1'}, 42, d), 6) AS p FROM (SELECT "+exampleXY+" AS fit "+tenRows+"), range(3) t(d);",
			nil, []int{4}, capi.TDouble, false, callSample),
		scalar("bglm_influence", "(fit, y, x [, {weight, offset, trials}])",
			"How much a row of the fit influenced it. residual and curvature are the first derivative of the row's log likelihood at the mean predictor and minus the second; leverage is the curvature times the variance of the predictor; loo_log_density is the log density of y given all other rows, NULL if no proper posterior is left without the row. The density is exact for gaussian responses with a given dispersion and prior variances. If the dispersion was learnt, it is computed from the other rows, and the density is Student's (see bglm_loo_predict, which also says how far to trust it). Otherwise Gaussian factors at the mean stand for the rows. A row of weight w is w rows: the first three fields are of all of them, the density is that of one given all others.",
			"SELECT late, round(i.residual, 4) AS residual, round(i.leverage, 4) AS leverage, round(i.loo_log_density, 4) AS loo FROM (SELECT late, bglm_influence(fit, late, {origin: origin}) AS i "+
				"FROM (SELECT i % 3 = 0 AS late, 'A' || i % 2 AS origin FROM range(2) t(i)), (SELECT "+exampleXY+" AS fit "+tenRows+"));",
			option.For("influence").Keys(), []int{3, 4}, influenceType, false, callInfluence),
		scalar("bglm_loo_predict", "(fit, y, x [, {weight, offset, trials}])",
			"Predicts a row that the fit has learnt from all other rows, by taking the row's own factor out of the posterior. The result has the fields of bglm_predict_dist and the log density of y. reach says how far to trust it, like Pareto's k: over 0.5 the row weighs so much that the others would change without it. The result is NULL if no proper posterior is left without the row. In a fit of bglm_ep or bglm_hmc the factor of a row is the one that keeps the posterior's moments; in other fits it is its Gaussian at the mean, as in bglm_influence. A learnt dispersion of gaussian responses is computed from the other rows: log_density is then of Student's t, and reach is at least the row's share of the sum of squares and of the precision of its predictor. A learnt shape of gamma and negbinomial is computed from the other rows too, and reach is at least half the square of its shift in standard deviations. For studentt, reach says where the row moves the learnt dispersion or shape. Learnt prior variances stay as they are: a level known mostly from this row is treated as a new one, with a reach over 0.5. A row of weight w is w rows, of which one is left out. If weights drift, the result says little, because the fit has the weights of the last row. Source: Vehtari and others (2016), EP-LOO and LA-LOO.",
			"SELECT late, round(p.mean, 4) AS mean, round(p.log_density, 4) AS log_density, round(p.reach, 4) AS reach FROM (SELECT late, bglm_loo_predict(fit, late, {origin: origin}) AS p "+
				"FROM (SELECT i % 3 = 0 AS late, 'A' || i % 2 AS origin FROM range(2) t(i)), (SELECT bglm_ep(late, {origin: origin}) AS fit "+tenRows+"));",
			option.For("influence").Keys(), []int{3, 4}, looPredictType, false, callLOOPredict),
		scalar("bglm_pit", "(fit, y, x [, {offset, trials}])",
			"The probability integral transform of a response: the predictive distribution function just below the response (lower) and at it (upper), which differ for counts and binary outcomes. Over rows that the fit has not learnt, values between lower and upper are uniform if the model is right. A histogram with heaps at both ends means that intervals are too narrow; one heap in the middle means that they are too wide.",
			"SELECT round(p.lower, 4) AS lower, round(p.upper, 4) AS upper FROM (SELECT bglm_pit(fit, 3, {x: 1}) AS p FROM (SELECT bglm_from_beliefs([{feature: 'x', mean: 1.0, variance: 0.1}], {family: 'poisson', intercept: false}) AS fit));",
			option.For("pit").Keys(), []int{3, 4}, pitType, false, callPIT),
	}
}

// summaries read the weights of a fit.
func summaries() []entry {
	return []entry{
		scalar("bglm_summary", "(fit [, level | {level, rope}])",
			"The weights in readable form: mean, standard deviation and central interval (level 0.95); the same as odds or rate ratios if the link is logit, cloglog or log (otherwise NULL); the probability that the weight is positive; and its effect per standard deviation of the column, if the fit knows that. With the option rope, also the probability that the weight is between -rope and rope, that is practically zero. In a fit of classes each term begins with its class ('a: x').",
			"SELECT unnest(bglm_summary(fit), recursive := true) FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			option.For("summary").Keys(), []int{1, 2}, summaryType, false, callSummary).checks(1, checkSummary),
		scalar("bglm_contrast", "(fit, a, b [, level])",
			"The difference between two rows of features, a minus b, under the joint posterior: of the linear predictor (mean, sd, central interval, probability that a's is larger) and, in the field response, of the expected response. What the rows share cancels in the linear predictor. For a fit of classes the result is a LIST with these fields for each class: the difference of the class's predictor, measured against the reference class or, without one, against the mean of all classes, and that of its probability, with a p_positive of its own.",
			"SELECT round(bglm_contrast(fit, {origin: 'A1'}, {origin: 'A0'}).p_positive, 4) FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			nil, []int{3, 4}, contrastType, false, callContrast).
			alsoClasses(classContrasts, callContrastClasses, 3, 4).checks(3, checkLevel),
		scalar("bglm_pairs", "(fit, x, column [, level])",
			"Compares all pairs of the levels of a column under the joint posterior, with everything else as in x, like R's emmeans. The result is LIST(STRUCT(a, b, and the fields of bglm_contrast, a minus b)); for a fit of classes there is one for each pair and class. Up to 64 levels.",
			"SELECT p.a, p.b, round(p.mean, 4) AS mean, round(p.p_positive, 4) AS p_positive FROM (SELECT unnest(bglm_pairs(fit, {origin: NULL::VARCHAR}, 'origin')) AS p FROM (SELECT "+exampleLaplace+" AS fit "+tenRows+"));",
			nil, []int{3, 4}, pairsOfLevels, false, callPairs).
			alsoClasses(classPairs, callPairsClasses, 3, 4).checks(3, checkLevel),
	}
}

// exports write a fit for other programs.
func exports() []entry {
	return []entry{
		scalar("bglm_sql", "(fit, dialect [, options])",
			"Writes a query that scores rows in a database without bglm. dialect is 'duckdb', 'sqlite', 'postgres', 'bigquery' or 'snowflake'. For each row of the option table, the query gives the columns of keep (default: those of the fit), eta_mean and eta_variance of the linear predictor, prediction (the expected response with the weights integrated out), and lower and upper (the interval of the expected response). prediction equals bglm_predict to rounding; 'exact' under logit is a sum over 65 nodes, right to 1e-8 up to a standard deviation of the predictor of 4 and to 1e-5 up to 7 (cloglog: 2e-5 and 1e-3). The table must have the columns of the fit by name. A kept column with the name of a result, or columns or classes whose names are one to the database, are errors. An interaction of levels, or of numbers, is a column of its own, which holds 'x:y' or the product. An interaction of a number with levels is an error if its name a:b shows that it is one. A column of lists of levels is an error when the query runs, except in SQLite and Snowflake, which do not notice it. An offset is not part of a FIT: add it to eta_mean. NULLs and levels never seen are treated as bglm_predict does. For a fit of classes the query gives prediction_CLASS for each class in place of eta_mean to upper, by 'plugin' (the default there) or 'mackay'; 'exact' is an error. In the fits of the test suite these differ by up to 0.013 and 0.046 from the probabilities with the weights integrated out, and by far more if posteriors are wide: compare with bglm_predict. Fits with many weights are written as tables of values to join with (option form). SQLite needs its mathematical functions.",
			"SELECT bglm_sql(bglm_from_beliefs([{feature: 'x', mean: 1.0, variance: 0.25}], {link: 'probit', intercept: false}), 'sqlite', {prediction: 'plugin'}) LIKE 'SELECT \"x\", bglm_m AS eta_mean%';",
			option.For("sql").Keys(), []int{2, 3}, capi.TVarchar, false, callSQL),
		scalar("bglm_pmml", "(fit [, response])",
			"Writes the fit as a PMML 4.4 document for other programs: a RegressionModel with the mean weights, which predicts what bglm_predict does with 'plugin'. bernoulli becomes a classification whose output probability is that of 1; a fit of two classes or more (bglm_softmax) becomes a softmax classification with an output probability(CLASS) for each. Missing values and levels never seen are treated as bglm_predict does, by derived fields. An interaction a:b is computed from the columns a and b if the fit has both; otherwise it is a field of its own. No field can hold a column of lists of levels, and an offset is not part of a FIT. response names the target (default 'y').",
			"SELECT bglm_pmml(bglm_from_beliefs([{feature: 'x', mean: 1.0, variance: 0.25}], {link: 'probit', intercept: false})) LIKE '%<NumericPredictor name=\"x, its mean where missing\" coefficient=\"1\"/>%';",
			nil, []int{1, 2}, capi.TVarchar, false, callPMML),
	}
}

// conversions make a fit of another one, or of beliefs, and show what it is made of.
func conversions() []entry {
	return []entry{
		scalar("bglm_update", "(fit, rows [, options])",
			"Continues a fit with more rows, given as LIST(STRUCT(y, x [, weight, offset, trials, time])), in the order of the list. The beliefs are those of one uninterrupted run, bit for bit if nothing drifts.",
			"SELECT bglm_update(fit, [{y: true, x: {origin: 'A1'}}, {y: false, x: {origin: 'A0'}}]).n FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			option.For(continuing("adf").Name).Continuing().Keys(), []int{2, 3}, fitType, false, callUpdate).checks(2, checkContinuing),
		scalar("bglm_newton_solve", "(state [, options])",
			"Makes a fit of the state of a pass over the rows (bglm_newton_state, bglm_newton_merge), by one Newton step from where the pass looked. Give the options of the pass. status says how far from the mode the pass was; give the fit to the next pass as around. The fit has converged, and is that of bglm_laplace, if the pass was within 1e-6 posterior standard deviations of the mode. With method 'ep' it is that of bglm_ep with a full covariance, if sites and posterior agree to 1e-8. With method 'lowrank' it is that of bglm_lowrank, and the next pass takes the state itself, as [state], for around.",
			"SELECT bglm_newton_solve(s).n FROM (SELECT bglm_newton_state(late, {origin: origin}) AS s "+tenRows+");",
			option.For("newton_state").Without(option.RowFields()...).Keys(), []int{1, 2}, fitType, false, callSolve).checks(1, checkSolving),
		scalar("bglm_beliefs", "(fit)", "The belief table of a fit as LIST(STRUCT(feature, mean, variance)); for a fit of classes also class.",
			"SELECT len(bglm_beliefs(fit)) FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			nil, []int{1}, beliefsType, false, callBeliefs).
			alsoClasses(capi.ListOf(classBelief), callBeliefsClasses, 1),
		scalar("bglm_from_beliefs", "(beliefs [, options])",
			"Makes a FIT with n = 0 from LIST(STRUCT(feature, mean, variance)), to predict with or to use as a prior. It has an intercept, the feature '(Intercept)', unless the option intercept is false; if the list has no belief about it, it has its prior.",
			"SELECT bglm_predict(bglm_from_beliefs([{feature: 'a', mean: 0.0, variance: 1.0}], {link: 'probit'}), {a: 1});",
			option.For("from_beliefs").Keys(), []int{1, 2}, fitType, false, callFromBeliefs).checks(1, checkFromBeliefs),
		scalar("bglm_features", "(x [, {missing}])", "Shows the features of a row: LIST(STRUCT(feature, value)), with duplicates summed. A NULL in a STRUCT or a list of numbers becomes the feature `column IS NULL`. A fit also replaces a missing number by the mean of its column, which this function does not know.",
			"SELECT bglm_features({origin: 'ATL', distance: NULL::DOUBLE, weekend: true});",
			option.For("features").Keys(), []int{1, 2}, pairsType, false, callFeatures).checks(1, checkFeatures),
	}
}

// about tells of bglm itself.
func about() []entry {
	return []entry{
		scalar("bglm_version", "()", "Versions of bglm, of Go and of the DuckDB that it runs in.", "SELECT bglm_version() LIKE 'bglm v%';",
			nil, []int{0}, capi.TVarchar, false, func(_ []capi.Vec, n int, out *capi.Col) error {
				for range n {
					out.Str(fmt.Sprintf("bglm %s (%s, DuckDB %s)", Version, runtime.Version(), capi.Version()))
				}
				return nil
			}),
		scalar("bglm_families", "()", "All families and links: LIST(STRUCT(family, link, description)).",
			"SELECT unnest(bglm_families(), recursive := true);", nil, []int{0}, familyType, false, callFamilies),
		scalar("bglm_functions", "()", "All functions of bglm: LIST(STRUCT(name, kind, signature, description, options, example)).",
			"SELECT f.name FROM (SELECT unnest(bglm_functions()) AS f) LIMIT 1;", nil, []int{0}, functionType, false, callFunctions),
		scalar("bglm_options", "()", "All options: LIST(STRUCT(name, default, allowed, description, by_row, functions)).",
			"SELECT o.name, o.default FROM (SELECT unnest(bglm_options()) AS o) LIMIT 1;", nil, []int{0}, optionsType, false, callOptions),
		scalar("bglm_help", "(name)", "Describes a function or a macro (with or without bglm_), an option, a family or a link, as text.",
			"SELECT length(bglm_help('laplace')) > 100;", nil, []int{1}, capi.TVarchar, false, callHelp),
		scalar("bglm_macros", "([name])", "The SQL that creates the table macros (bglm_score and others), or only the macro of that name. Run it as it stands, for example from a client that has no .read. bglm_help describes each macro.",
			"SELECT bglm_macros('bglm_evaluate') LIKE 'CREATE OR REPLACE MACRO %';", nil, []int{0, 1}, capi.TVarchar, false, callMacros),
	}
}

// states show and release the memory of the process.
func states() []entry {
	return []entry{
		scalar("bglm_state", "()", "Memory of this process. Aggregate states: live_states, how many there are; bytes, what they hold; leaked, those untouched for over a second (DuckDB does not release the states of queries that end early); purged. Then memory, what bglm holds in all, and its limit max_memory, in bytes; threads, how many processors bglm uses; row_budget, that of bglm_fit.",
			"SELECT bglm_state().live_states >= 0;", nil, []int{0}, stateType, true, func(_ []capi.Vec, n int, out *capi.Col) error {
				for range n {
					s := capi.States()
					for k, v := range [...]int64{s.Live, s.Bytes, s.Leaked, s.Purged, memory.Used(), memory.Limit(), int64(runtime.GOMAXPROCS(0)), int64(rowBudget())} {
						out.Field(k).Int(v)
					}
					out.EndStruct()
				}
				return nil
			}),
		scalar("bglm_purge", "([idle_seconds])", "Releases aggregate states that have not been touched for that many seconds (default 0: all) and returns their number. A query that still uses one fails with an error.",
			"SELECT bglm_purge(3600) >= 0;", nil, []int{0, 1}, capi.TBigInt, true, callPurge),
	}
}

// fitters are bglm_fit and an aggregate for each method.
func fitters() []entry {
	one := func(name, doc, example string, uses []string, m *engine.Method, result *capi.Type) entry {
		return aggregate("bglm_"+name, "(y, x [, options])", doc, example, option.For(uses...).Keys(), []int{2, 3}, result, updateFit(m), finalizeFit)
	}
	var out []entry
	for _, m := range engine.Methods() {
		f, order := forms[m.Kind], ""
		doc := Told(m.Summary)
		if f.doc != "" {
			doc += " " + f.doc
		}
		doc += " Source: " + m.Source + "."
		if m.Streams {
			doc += " Rows are absorbed in the order given by ORDER BY inside the call. Without it several threads absorb parts of the rows, and the parts are merged by summing precisions."
			order = " ORDER BY i"
		}
		call := strings.NewReplacer("$link", cmp.Or(m.Link, "probit"), "$order", order).Replace("bglm_" + m.Name + f.call)
		out = append(out, one(m.Name, doc, strings.Replace(f.example, "$call", call, 1), []string{m.Name}, &m, f.result))
	}
	var streams []string
	for _, m := range engine.Methods() {
		if m.Streams {
			streams = append(streams, m.Name)
		}
	}
	return append(out, one("fit", "Start here. bglm_fit keeps the rows while they fit in row_budget and solves them with laplace, which learns prior variances, dispersion and shape; if the likelihood is flat at the mode, as with separated responses, it uses ep. Beyond row_budget, or if you give time, process_noise or forgetting, it streams the rows through adf with an arrowhead covariance. The field method of the FIT says which engine was used. The option method chooses another engine; the other options are then those of bglm_<method>.",
		"SELECT f.method, f.status FROM (SELECT bglm_fit(late, {origin: origin}) AS f "+tenRows+");", append(engine.Names(engine.Weights), engine.Auto, "fit"), nil, fitType),
		aggregate("bglm_progressive", "(y, x [, options])",
			"Predicts each row of a stream before learning it: a test of a model that needs no held-out data. The result is LIST(STRUCT(y, mean, lower, upper, log_density)) in the order of the rows; the first row is predicted from the prior. lower and upper are a 95 % interval, of the probability for binary responses, of a new response otherwise. Rows that are skipped are not in the list. Give the order of the rows by ORDER BY inside the call. The option method names a streaming method (default 'adf'); the other options are those of bglm_<method>.",
			"SELECT round(bglm_log_loss(p.y = 1, p.mean), 4) AS log_loss FROM (SELECT unnest(bglm_progressive(late, {origin: origin} ORDER BY i)) AS p "+tenRows+");",
			option.For(append(streams, "fit")...).Keys(), []int{2, 3}, predictionsType, updateBy("progressive", engine.Predictions, planProgressive), finalizeFit))
}

func callFamilies(_ []capi.Vec, n int, out *capi.Col) error {
	for range n {
		for _, f := range lik.Families() {
			for _, l := range f.Links {
				e := out.Elem()
				e.Field(0).Str(f.Family)
				e.Field(1).Str(l)
				e.Field(2).Str(f.Description)
				e.EndStruct()
			}
		}
		out.EndList()
	}
	return nil
}

func callFunctions(_ []capi.Vec, n int, out *capi.Col) error {
	for range n {
		e := out.Elem()
		for _, f := range Functions() {
			e.Field(0).Str(f.Name)
			e.Field(1).Str(f.Kind)
			e.Field(2).Str(f.Signature)
			e.Field(3).Str(f.Description)
			for _, o := range f.Options {
				e.Field(4).Elem().Str(o)
			}
			e.Field(4).EndList()
			e.Field(5).Str(f.Example)
			e.EndStruct()
		}
		out.EndList()
	}
	return nil
}

func callPurge(args []capi.Vec, n int, out *capi.Col) error {
	for i := range n {
		idle := 0.0
		if len(args) > 0 && !args[0].Null(i) {
			if !args[0].IsNumber() {
				return fmt.Errorf("idle_seconds is %s; allowed: a number >= 0", args[0].TypeName())
			}
			if idle = args[0].Float(i); !special.Finite(idle) || idle < 0 {
				return fmt.Errorf("idle_seconds = %v; allowed: a number >= 0", idle)
			}
		}
		out.Int(capi.Purge(time.Duration(min(idle, 1e9) * float64(time.Second))))
	}
	return nil
}

var registry []entry

func init() { registry = entries() } // entries name callFunctions, which lists them

// Functions lists the SQL functions with their documentation.
func Functions() []Function {
	out := make([]Function, len(registry))
	for i, e := range registry {
		out[i] = e.Function
	}
	return out
}

// warmup shows every kind of caller to the call-site classifier: ordered and
// constant-frame calls hand over one state for a chunk, the others one a row.
var warmup = capi.WarmUp{Queries: []string{
	"SELECT bglm_rmse(i, i ORDER BY i) FROM range(64) t(i)",
	"SELECT bglm_rmse(i, i ORDER BY i) FROM range(64) t(i) GROUP BY i % 2",
	"SELECT bglm_rmse(i, i) OVER () FROM range(64) t(i)",
	"SELECT bglm_rmse(i, i) OVER (PARTITION BY i % 2), sum(i) OVER (PARTITION BY i % 2 ORDER BY i) FROM range(64) t(i)",
	"SELECT bglm_rmse(i, i) OVER (ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM range(64) t(i)",
	"SELECT bglm_rmse(i, i ORDER BY i) OVER (ORDER BY i ROWS BETWEEN 20 PRECEDING AND CURRENT ROW) FROM range(64) t(i)",
	"SELECT bglm_rmse(i, i) FROM range(64) t(i)",
	"SELECT bglm_rmse(i, i) FROM range(64) t(i) GROUP BY i % 2",
	"SELECT bglm_rmse(i, i) FROM range(64) t(i) GROUP BY (i % 2)::VARCHAR",
	"SELECT bglm_rmse(i, i) FILTER (i % 3 = 0) FROM range(64) t(i) GROUP BY i % 2",
	"SELECT bglm_rmse(DISTINCT i, i) FROM range(64) t(i) GROUP BY i % 2",
	"SELECT bglm_rmse(DISTINCT i, i) FROM range(64) t(i)",
	"SELECT bglm_rmse(i, i) OVER (ORDER BY i ROWS BETWEEN 20 PRECEDING AND CURRENT ROW) FROM range(64) t(i)",
	"SELECT bglm_rmse(i, i) OVER (ORDER BY i) FROM range(64) t(i)",
	"SELECT bglm_rmse(DISTINCT i, i) OVER (ORDER BY i ROWS BETWEEN 20 PRECEDING AND CURRENT ROW) FROM range(64) t(i)",
	"SELECT bglm_rmse(i, i) OVER (ORDER BY i ROWS BETWEEN 20 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) FROM range(64) t(i)",
}, Window: []string{ // with another window beside it, which keeps DuckDB 1.5 from writing it as a join
	"SELECT bglm_adf(true, %s) OVER (PARTITION BY i // 32), sum(i) OVER (PARTITION BY i // 32 ORDER BY i) FROM range(640) t(i)",
	"SELECT bglm_adf(true, %s) OVER () FROM range(64) t(i)",
}, Sorted: []string{
	"SELECT bglm_adf(true, %s ORDER BY i) FROM range(64) t(i)",
	"SELECT bglm_adf(true, %s ORDER BY i) FROM range(64) t(i) GROUP BY i %% 2",
	"SELECT bglm_adf(true, %s ORDER BY i) FROM range(64) t(i) GROUP BY (i %% 2)::VARCHAR",
}, SortedWindow: []string{
	"SELECT bglm_adf(true, %s ORDER BY i) OVER (ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM range(64) t(i)",
	"SELECT bglm_adf(true, %s ORDER BY i) OVER (PARTITION BY i // 32), sum(i) OVER (PARTITION BY i // 32 ORDER BY i) FROM range(640) t(i)",
}, Grouped: []string{ // groups that are hashed, computed ones and constant ones
	"SELECT bglm_adf(true, %s) FROM range(64) t(i) GROUP BY (i %% 2)::VARCHAR",
	"SELECT bglm_adf(true, %s) FROM (VALUES ('a'), ('b')) g(k), range(64) t(i) GROUP BY k",
}, Filtered: []string{
	"SELECT bglm_adf(true, %s) FILTER (i %% 3 = 0) FROM range(64) t(i) GROUP BY (i %% 2)::VARCHAR",
	"SELECT bglm_adf(true, %s) FILTER (i %% 3 = 0) FROM (VALUES ('a'), ('b')) g(k), range(64) t(i) GROUP BY k",
}, Distinct: []string{
	"SELECT bglm_adf(DISTINCT true, %s) FROM range(64) t(i) GROUP BY (i %% 2)::VARCHAR",
}, Constant: "SELECT bglm_summary(NULL, (SELECT 0.5))"}

// registerAll adds the functions to the database behind a duckdb_connection.
func registerAll(con unsafe.Pointer) error {
	var aggs []*capi.Aggregate
	var scalars []*capi.Scalar
	for i := range registry {
		if e := &registry[i]; e.agg != nil {
			aggs = append(aggs, e.agg)
		} else {
			scalars = append(scalars, e.scalar)
		}
	}
	return capi.Register(con, capi.All{Aggregates: aggs, Scalars: scalars, Settings: hostSettings, WarmUp: warmup})
}

// Purge releases aggregate states that no callback has touched for at least
// idle, and returns how many: what queries that ended early left behind. A query
// that still uses one of them fails with an error.
func Purge(idle time.Duration) int64 { return capi.Purge(idle) }

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
				if err := going(0); err != nil {
					return err
				}
				return worded(update(args, slots))
			},
			Finalize: func(states []capi.State, out *capi.Col) error { return worded(finalize(states, out)) },
			Args:     argNames.FindAllString(sig, -1), RowFields: option.RowFields()}}
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
			"Product of partial posteriors, the common prior counted once: Λ = ΣΛk - (K-1)Λ0. The prior is the fits' default prior, or the FIT given as second argument that all of them started from. Prior variances of columns of levels (option prior_variance) are those of all parts. Parts with priors of single features (option priors), or a prior variance of a column of numbers, are an error without a second argument that has these, as bglm_from_beliefs(list, options) of their list: they would count in every part.",
			"SELECT bglm_merge(fit).n FROM (SELECT i % 2 AS part, "+exampleXY+" AS fit "+tenRows+" GROUP BY part);",
			nil, []int{1, 2}, fitType, updateMerge, finalizeMerge),
		aggregate("bglm_newton_merge", "(state)",
			"What passes over parts of the rows say together (bglm_newton_state with the same options and columns): as one pass over all of them, whatever the parts and their order, to rounding. NULL is no part.",
			"SELECT octet_length(bglm_newton_merge(s)) > 0 FROM (SELECT bglm_newton_state(late, {origin: origin}) AS s "+tenRows+" GROUP BY i % 2);",
			nil, []int{1}, capi.TBlob, updatePasses, finalizePasses),
	}
}

// measures compare predictions with what was observed.
func measures() []entry {
	scored := "FROM (VALUES (true, 0.8), (false, 0.3), (true, 0.6), (false, 0.7)) t(y, p)"
	return []entry{
		numberMetric("bglm_auc", "(y, p [, weight])", "Area under the ROC curve, ties as in the trapezoid rule. NULL when only one class occurs.",
			"SELECT bglm_auc(y, p) "+scored+";", metric.AUC, metric.Outcome, metric.Score),
		numberMetric("bglm_log_loss", "(y, p [, weight])", "Mean of -log of the probability given to what was observed; Infinity where a certain prediction was wrong.",
			"SELECT round(bglm_log_loss(y, p), 6) "+scored+";", metric.LogLoss, metric.Outcome, metric.Probability),
		numberMetric("bglm_brier", "(y, p [, weight])", "Mean squared difference of outcome (0 or 1) and probability.",
			"SELECT round(bglm_brier(y, p), 6) "+scored+";", metric.Brier, metric.Outcome, metric.Probability),
		numberMetric("bglm_rmse", "(y, p [, weight])", "Root of the mean squared difference of observed and predicted.",
			"SELECT round(bglm_rmse(y, p), 6) FROM (VALUES (1.0, 1.5), (2.0, 1.0)) t(y, p);", metric.RMSE, metric.Response, metric.Prediction),
		aggregate("bglm_calibration", "(y, p [, bins [, weight]])", "Observed share against mean prediction in equal-width bins of the probability (default 10); empty bins are left out."+countedAs+" n is the sum of these, to the nearest whole number.",
			"SELECT unnest(bglm_calibration(y, p, 2), recursive := true) "+scored+";", nil, []int{2, 3, 4}, calibrationType,
			updateMetric([]metric.Arg{metric.Outcome, metric.Probability}, 1, freshCalibration), finalizeMetric(appendBins)),
		numberMetric("bglm_coverage", "(y, lo, hi [, weight])", "Share of observations inside their interval, ends included; lo > hi is an error.",
			"SELECT bglm_coverage(y, lo, hi) FROM (VALUES (1.0, 0.5, 1.5), (3.0, 0.0, 1.0)) t(y, lo, hi);", metric.Coverage, metric.Response, metric.Lower, metric.Upper),
	}
}

// judges say over rows what a fit is worth and what moves it.
func judges() []entry {
	return []entry{
		aggregate("bglm_loo", "(fit, y, x [, {weight, offset, trials}])",
			"How well the fit predicts each of its own rows from all others, in the names of R's package loo: elpd_loo is the sum of the leave-one-out log densities (those of bglm_loo_predict, in nats), se_elpd_loo its standard error, p_loo the effective number of weights, looic -2 elpd_loo; elpd_waic, p_waic and waic are those of WAIC. n_warned counts rows that weigh so much that their density is not reliable (worst is over 0.5 for them, as Pareto's k would be: refit without them to be sure), n_failed those that have none, for which the sums are NULL; status says so. No row is learnt again. A learnt dispersion of gaussian rows, and a learnt shape of gamma and negbinomial, is averaged over, and each row left out of it. A row of weight w counts as w rows, of which one is left out. n, n_warned and n_failed are rows of any weight.",
			"SELECT round(l.elpd_loo, 3) AS elpd_loo, round(l.se_elpd_loo, 3) AS se, round(l.p_loo, 3) AS p_loo, l.status FROM (SELECT bglm_loo(fit, late, {origin: origin}) AS l "+tenRows+", (SELECT "+exampleLaplace+" AS fit "+tenRows+"));",
			option.For("loo").Keys(), []int{3, 4}, looType, updateLOO, written(writeLOO)),
		aggregate("bglm_loo_auc", "(fit, y, x [, {weight, offset, trials}])",
			"The area under the ROC curve of a fit of responses 0 and 1 on its own rows, each pair of a 1 and a 0 predicted by all other rows (leave-pair-out): 0.5 where x says nothing, which rows left out one by one, ranked together, fall below. Both rows are taken out of the joint posterior; no row is learnt again. Up to 100,000 pairs are judged, fewer where covariances are large; of more, a sample of them tells how far the area by single rows is off, to about 0.002. NULL when only one response occurs. A row of weight w counts as w rows, of which a pair has one.",
			"SELECT round(bglm_loo_auc(fit, late, {origin: origin}), 4) AS auc "+tenRows+", (SELECT "+exampleLaplace+" AS fit "+tenRows+");",
			option.For("loo").Keys(), []int{3, 4}, capi.TDouble, updateLOOAUC, written(writeLOOAUC)),
		aggregate("bglm_loo_compare", "(fits, y, x [, {weight, offset, trials}])",
			"Several fits of the same rows beside one another, the best leave-one-out density first: fits is a STRUCT of FITs by name, or MAP(VARCHAR, FIT), of which NULL ones are left out; x has the columns of all of them, or is a STRUCT of an x for each by name. LIST(STRUCT) of name, the fields of bglm_loo, elpd_diff (the sum of the differences from the best) with its standard error se_diff, weight (by stacking: the mixture of the fits that predicts left-out rows best) and log_evidence. A difference of less than two or three se_diff says little. A row of weight w counts as w rows, of which one is left out.",
			"SELECT c.name, round(c.elpd_diff, 3) AS elpd_diff, round(c.se_diff, 3) AS se_diff, round(c.weight, 3) AS weight FROM (SELECT unnest(bglm_loo_compare({with_origin: a, without: b}, late, {origin: origin, one: 1})) AS c "+tenRows+", (SELECT "+exampleLaplace+" AS a, bglm_laplace(late, {one: 1}, {intercept: false}) AS b "+tenRows+"));",
			option.For("loo_compare").Keys(), []int{3, 4}, compareType, updateCompare, written(writeCompare)),
		aggregate("bglm_effects", "(fit, x, column [, options])",
			"What a column does to the expected response, averaged over rows: of a column of numbers the average slope (contrast dY/dX) or, with the option step, the average effect of adding it; of levels the average comparison of each with the first one, or with the option reference, every row taken as if it had that level; of '*' all columns that the fit knows. Mean, standard deviation, interval and P(> 0) are those of the posterior, by the delta method, or with the option draws of joint draws of the weights. The definitions are those of R's marginaleffects (avg_slopes, avg_comparisons), whose numbers {prediction: 'plugin'} gives. Interactions, STRUCTs in x, change with their columns; rows where a number is NULL are left out. Every row is predicted twice for every level: 10,000 rows and 1,200 levels take some fifteen seconds of a processor where the covariance is an arrowhead. Of a fit of classes they are the effects on the probability of each, whose name stands before the contrast ('a: dY/dX').",
			"SELECT unnest(bglm_effects(fit, {origin: origin}, 'origin'), recursive := true) "+tenRows+", (SELECT "+exampleLaplace+" AS fit "+tenRows+");",
			option.For("effects").Keys(), []int{3, 4}, effectsType, updateEffects, written(writeEffects)),
		aggregate("bglm_robust", "(fit, y, x [, cluster] [, options])",
			"The FIT with a covariance that does not trust the likelihood (a sandwich), of the rows that it has learnt from: robust to variances that differ from row to row and, with cluster, to rows that go together in its groups. The means stay. Equal to R's sandwich and vcovCL where the prior says little; what the prior knows stays as it is, and so does the width that comes of prior variances that were learnt. The option type is the correction for few rows, 'hc0' (the default, times G/(G-1) for G clusters), 'hc1', 'hc2' or 'hc3'. A row of weight w counts as w rows. Needs a fit with its full covariance, up to 5,000 weights. All that is asked of the FIT afterwards (bglm_summary, bglm_contrast, bglm_effects, intervals) has the robust errors.",
			"SELECT s.term, round(s.sd, 4) AS sd FROM (SELECT unnest(bglm_summary(robust)) AS s FROM (SELECT bglm_robust(fit, late, {origin: origin}, i // 2) AS robust "+tenRows+", (SELECT "+exampleLaplace+" AS fit "+tenRows+")));",
			option.For("robust").Keys(), []int{3, 4, 5}, fitType, updateRobust, written(writeRobust)),
		aggregate("bglm_ppc", "(fit, y, x, statistic [, options])",
			"A posterior predictive check: do responses that the fit makes look like those of the rows? statistic is 'mean', 'sd', 'zeros' (their share), 'min' or 'max' of the responses: observed, and mean, sd and interval of the same statistic of repeated responses, each of all rows with weights, and a learnt dispersion or shape, drawn anew; p is the share of repetitions above the observed (equal ones half). p near 0 or 1: the model does not make such data. A function of the rows and seed alone; the rows are kept.",
			"SELECT c.n, c.observed, round(c.mean, 2) AS mean, round(c.p, 2) AS p FROM (SELECT bglm_ppc(fit, late, {origin: origin}, 'mean') AS c "+tenRows+", (SELECT "+exampleLaplace+" AS fit "+tenRows+"));",
			option.For("ppc").Keys(), []int{4, 5}, checkType, updateCheck, written(writeCheck)),
		aggregate("bglm_drivers", "(fit, x [, level | {level, weight}])",
			"Which columns move the predictions: for each column its share of the linear predictor's variance over the rows (with the other columns' help: Cov(part, whole) / Var(whole); shares add up to 1 and may be below 0): its posterior mean, sd and interval, by up to 512 draws of the weights (those of bglm_sample with seed 0; 64 where there are many weights), and spread, the standard deviation of its own part at the mean weights. Weights that are not well known vary the predictor too: a share then is not that of the mean weights. The largest share first; NULL where the predictor does not vary. A row of weight w counts as w rows.",
			"SELECT d.column, round(d.share, 3) AS share, round(d.spread, 3) AS spread FROM (SELECT unnest(bglm_drivers(fit, {origin: origin, i: i})) AS d "+tenRows+", (SELECT bglm_laplace(i < 5, {origin: origin, i: i}) AS fit "+tenRows+"));",
			option.For("drivers").Keys(), []int{2, 3}, driversType, updateDrivers, written(writeDrivers)),
	}
}

// predictions predict a row.
func predictions() []entry {
	return []entry{
		scalar("bglm_predict", "(fit, x [, prediction])",
			"Expected response, the weights integrated out ('exact', the default), by MacKay's moderation ('mackay') or at the mean weights ('plugin'). Features the fit has not seen have their prior.",
			"SELECT round(bglm_predict(fit, {origin: 'A1'}), 6) FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			nil, []int{2, 3}, capi.TDouble, false, callPredict).
			also(capi.TDouble, gpType, callPredictGP, 2, 3).
			alsoClasses(classProbs, callPredictClasses, 2, 3).checks(2, checkHow),
		scalar("bglm_predict_dist", "(fit, x [, level])",
			"Mean and variance of the linear predictor and of the response, and a central interval (level 0.95): of the probability for binary responses, of a new response otherwise. Where learnt has 'foretold', mean and variance of the predictor have these factors.",
			"SELECT bglm_predict_dist(fit, {origin: 'A1'}).eta_variance > 0 FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			nil, []int{2, 3}, distType, false, callPredictDist).
			also(distType, gpType, callPredictDistGP, 2, 3).checks(2, checkLevel),
		scalar("bglm_sample", "(fit, x, seed, draw)",
			"One draw of the expected response from the posterior of the weights: a function of seed, draw and the features alone, and joint over x, so that all rows with equal seed and draw see the same weights (Thompson sampling).",
			"SELECT round(bglm_sample(fit, {origin: 'A1'}, 42, d), 6) AS p FROM (SELECT "+exampleXY+" AS fit "+tenRows+"), range(3) t(d);",
			nil, []int{4}, capi.TDouble, false, callSample),
		scalar("bglm_influence", "(fit, y, x [, {weight, offset, trials}])",
			"What a row of the fit did to it: residual and curvature (first derivative of its log likelihood at the mean predictor, and minus the second), leverage (curvature times the predictor's variance), and the log density of y given all other rows, NULL where taking the row out leaves no proper posterior. Exact for gaussian with a given dispersion and prior variances; one that was learnt is that of the other rows then, and the density Student's (bglm_loo_predict, which says how far it can be trusted). Else the rows' Gaussian factors at the mean stand for them. A row of weight w is w rows, and the first three are of all of them; the density is that of one given all others.",
			"SELECT late, round(i.residual, 4) AS residual, round(i.leverage, 4) AS leverage, round(i.loo_log_density, 4) AS loo FROM (SELECT late, bglm_influence(fit, late, {origin: origin}) AS i "+
				"FROM (SELECT i % 3 = 0 AS late, 'A' || i % 2 AS origin FROM range(2) t(i)), (SELECT "+exampleXY+" AS fit "+tenRows+"));",
			option.For("influence").Keys(), []int{3, 4}, influenceType, false, callInfluence),
		scalar("bglm_loo_predict", "(fit, y, x [, {weight, offset, trials}])",
			"What all other rows predict for a row that the fit has learnt, whose own part is taken out: as bglm_predict_dist, with the log density of y. reach says how far it can be trusted, as Pareto's k does: over 0.5 the row weighs so much that the others would change without it. NULL where taking the row out leaves no proper posterior. The part of a row in a fit of bglm_ep or bglm_hmc is that which keeps the posterior's moments; elsewhere its Gaussian at the mean, as in bglm_influence. A learnt dispersion of gaussian rows is that of the other rows: log_density is of Student's t, and reach at least the row's share of the sum of squares and of its predictor's precision. A learnt shape of gamma and negbinomial is that of the other rows too, and reach half the square of its move in its deviations. Of studentt reach says where the row moves the learnt dispersion or shape. Prior variances that were learnt stay: a level of which the row says most is taken as a new one, with a reach over 0.5. A row of weight w is w rows, of which one is left out. Where weights drift it says little, for the fit has the weights of the last row. Source: Vehtari and others (2016), EP-LOO and LA-LOO.",
			"SELECT late, round(p.mean, 4) AS mean, round(p.log_density, 4) AS log_density, round(p.reach, 4) AS reach FROM (SELECT late, bglm_loo_predict(fit, late, {origin: origin}) AS p "+
				"FROM (SELECT i % 3 = 0 AS late, 'A' || i % 2 AS origin FROM range(2) t(i)), (SELECT bglm_ep(late, {origin: origin}) AS fit "+tenRows+"));",
			option.For("influence").Keys(), []int{3, 4}, looPredictType, false, callLOOPredict),
		scalar("bglm_pit", "(fit, y, x [, {offset, trials}])",
			"The probability integral transform of a response: its predictive distribution function just below it and at it, which differ for counts and outcomes. Over rows that the fit has not learnt from, values between lower and upper are uniform if the model is right: a histogram with two heaps at the ends tells of intervals that are too narrow, one in the middle of too wide ones.",
			"SELECT round(p.lower, 4) AS lower, round(p.upper, 4) AS upper FROM (SELECT bglm_pit(fit, 3, {x: 1}) AS p FROM (SELECT bglm_from_beliefs([{feature: 'x', mean: 1.0, variance: 0.1}], {family: 'poisson', intercept: false}) AS fit));",
			option.For("pit").Keys(), []int{3, 4}, pitType, false, callPIT),
	}
}

// summaries read the weights of a fit.
func summaries() []entry {
	return []entry{
		scalar("bglm_summary", "(fit [, level | {level, rope}])",
			"The weights as people read them: mean, standard deviation and central interval (level 0.95), the same as odds or rate ratios where the link is logit, cloglog or log (else NULL), the probability that the weight is positive, its effect per standard deviation of the column where the fit knows that, and with the option rope the probability that the weight is between -rope and rope: practically none. The terms of a fit of classes have the class before them ('a: x').",
			"SELECT unnest(bglm_summary(fit), recursive := true) FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			option.For("summary").Keys(), []int{1, 2}, summaryType, false, callSummary).checks(1, checkSummary),
		scalar("bglm_contrast", "(fit, a, b [, level])",
			"The difference between two rows of features under the joint posterior: of the linear predictor (mean, sd, central interval, probability that a's is larger) and, in the field response, of the expected response. What the rows share takes no part in it. Of a fit of classes a LIST of these by class: of the class's predictor, against the reference's or without one against the mean of all classes', and of its probability, whose p_positive is of its own.",
			"SELECT round(bglm_contrast(fit, {origin: 'A1'}, {origin: 'A0'}).p_positive, 4) FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			nil, []int{3, 4}, contrastType, false, callContrast).
			alsoClasses(classContrasts, callContrastClasses, 3, 4).checks(3, checkLevel),
		scalar("bglm_pairs", "(fit, x, column [, level])",
			"All pairs of the levels of a column, under the joint posterior, everything else as in x: LIST(STRUCT(a, b, and the fields of bglm_contrast, a less b)), the pairs of R's emmeans; of a fit of classes these for each class. Up to 64 levels.",
			"SELECT p.a, p.b, round(p.mean, 4) AS mean, round(p.p_positive, 4) AS p_positive FROM (SELECT unnest(bglm_pairs(fit, {origin: NULL::VARCHAR}, 'origin')) AS p FROM (SELECT "+exampleLaplace+" AS fit "+tenRows+"));",
			nil, []int{3, 4}, pairsOfLevels, false, callPairs).
			alsoClasses(classPairs, callPairsClasses, 3, 4).checks(3, checkLevel),
	}
}

// exports write a fit for other programs.
func exports() []entry {
	return []entry{
		scalar("bglm_sql", "(fit, dialect [, options])",
			"A query that scores rows in a database without bglm: dialect is 'duckdb', 'sqlite', 'postgres', 'bigquery' or 'snowflake'. Of each row of the option table it gives the columns of keep (default: those of the fit), eta_mean and eta_variance of the linear predictor, prediction, the expected response with the weights integrated out, and lower and upper, the interval of the expected response. Equal to bglm_predict to rounding; 'exact' under logit is a sum over 65 nodes, right to 1e-8 up to a deviation of the predictor of 4 and to 1e-5 up to 7 (cloglog: 2e-5 and 1e-3). The table has the columns of the fit by name; an interaction of levels or of numbers is a column of its own, 'x:y' or the product; one of both is an error where its name a:b tells, and a column of lists of levels is one of the query (in SQLite and Snowflake it is not noticed). An offset is no part of a FIT: it is added to eta_mean. NULLs and levels never seen are taken as bglm_predict does. Of a fit of classes there is prediction_CLASS for each in place of eta_mean to upper: 'plugin' (the default there) or 'mackay', up to 0.001 and 0.015 from the weights integrated out in the tests' fits of full covariance, far more where posteriors are wide (bglm_predict tells; 'exact' is an error). Wide fits are written as tables of values to join with (option form). SQLite needs its mathematical functions.",
			"SELECT bglm_sql(bglm_from_beliefs([{feature: 'x', mean: 1.0, variance: 0.25}], {link: 'probit', intercept: false}), 'sqlite', {prediction: 'plugin'}) LIKE 'SELECT \"x\", bglm_m AS eta_mean%';",
			option.For("sql").Keys(), []int{2, 3}, capi.TVarchar, false, callSQL),
		scalar("bglm_pmml", "(fit [, response])",
			"The fit as a document of PMML 4.4, a RegressionModel with the mean weights, for other programs: it predicts what bglm_predict does with 'plugin'. bernoulli is a classification whose output probability is that of 1; a fit of two classes or more (bglm_softmax) is one by softmax, with an output probability(CLASS) for each. Missing values and levels never seen are taken as bglm_predict does, by derived fields. An interaction a:b of columns that the fit has besides is made of these; another one is a field of its own. A column of lists of levels has no field that holds it, and an offset is no part of a FIT. response names the target (default 'y').",
			"SELECT bglm_pmml(bglm_from_beliefs([{feature: 'x', mean: 1.0, variance: 0.25}], {link: 'probit', intercept: false})) LIKE '%<NumericPredictor name=\"x, its mean where missing\" coefficient=\"1\"/>%';",
			nil, []int{1, 2}, capi.TVarchar, false, callPMML),
	}
}

// conversions make a fit of another one, or of beliefs, and show what it is made of.
func conversions() []entry {
	return []entry{
		scalar("bglm_update", "(fit, rows [, options])",
			"Continue a fit with LIST(STRUCT(y, x [, weight, offset, trials, time])) in the order of the list: the same beliefs as one uninterrupted run, bit for bit without drift.",
			"SELECT bglm_update(fit, [{y: true, x: {origin: 'A1'}}, {y: false, x: {origin: 'A0'}}]).n FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			option.For(continuing("adf").Name).Continuing().Keys(), []int{2, 3}, fitType, false, callUpdate).checks(2, checkContinuing),
		scalar("bglm_newton_solve", "(state [, options])",
			"The fit after Newton's step from where a pass over the rows looked (bglm_newton_state, bglm_newton_merge), with the options of the pass. Its status says how far from the mode the pass was; give it to the next pass as around. It has converged, and is that of bglm_laplace, where the pass was within 1e-6 posterior deviations of the mode; with method 'ep' that of bglm_ep with a full covariance, within 1e-8 of where sites and posterior agree; with 'lowrank' that of bglm_lowrank, and the next pass takes the state itself, as [state], for around.",
			"SELECT bglm_newton_solve(s).n FROM (SELECT bglm_newton_state(late, {origin: origin}) AS s "+tenRows+");",
			option.For("newton_state").Without(option.RowFields()...).Keys(), []int{1, 2}, fitType, false, callSolve).checks(1, checkSolving),
		scalar("bglm_beliefs", "(fit)", "The belief table of a fit as LIST(STRUCT(feature, mean, variance)).",
			"SELECT len(bglm_beliefs(fit)) FROM (SELECT "+exampleXY+" AS fit "+tenRows+");",
			nil, []int{1}, beliefsType, false, callBeliefs).
			alsoClasses(capi.ListOf(classBelief), callBeliefsClasses, 1),
		scalar("bglm_from_beliefs", "(beliefs [, options])",
			"A FIT with n = 0 from LIST(STRUCT(feature, mean, variance)), to predict with or to serve as a prior. There is an intercept unless the option intercept is false; one that the list does not have is at its prior.",
			"SELECT bglm_predict(bglm_from_beliefs([{feature: 'a', mean: 0.0, variance: 1.0}], {link: 'probit'}), {a: 1});",
			option.For("from_beliefs").Keys(), []int{1, 2}, fitType, false, callFromBeliefs).checks(1, checkFromBeliefs),
		scalar("bglm_features", "(x [, {missing}])", "What a row turns into: LIST(STRUCT(feature, value)), duplicates summed. A NULL in a STRUCT or a list of numbers is the feature `column IS NULL`; a number has the mean of its column besides, which only a fit knows.",
			"SELECT bglm_features({origin: 'ATL', distance: NULL::DOUBLE, weekend: true});",
			option.For("features").Keys(), []int{1, 2}, pairsType, false, callFeatures).checks(1, checkFeatures),
	}
}

// about tells of bglm itself.
func about() []entry {
	return []entry{
		scalar("bglm_version", "()", "Version of bglm, of Go and of the DuckDB it runs in.", "SELECT bglm_version() LIKE 'bglm v%';",
			nil, []int{0}, capi.TVarchar, false, func(_ []capi.Vec, n int, out *capi.Col) error {
				for range n {
					out.Str(fmt.Sprintf("bglm %s (%s, DuckDB %s)", Version, runtime.Version(), capi.Version()))
				}
				return nil
			}),
		scalar("bglm_families", "()", "The families and links: LIST(STRUCT(family, link, description)).",
			"SELECT unnest(bglm_families(), recursive := true);", nil, []int{0}, familyType, false, callFamilies),
		scalar("bglm_functions", "()", "All functions of bglm: LIST(STRUCT(name, kind, signature, description, options, example)).",
			"SELECT f.name FROM (SELECT unnest(bglm_functions()) AS f) LIMIT 1;", nil, []int{0}, functionType, false, callFunctions),
		scalar("bglm_options", "()", "All options: LIST(STRUCT(name, default, allowed, description, by_row, functions)).",
			"SELECT o.name, o.default FROM (SELECT unnest(bglm_options()) AS o) LIMIT 1;", nil, []int{0}, optionsType, false, callOptions),
		scalar("bglm_help", "(name)", "What there is to know of a function or a macro (with or without bglm_), an option, a family or a link, as text.",
			"SELECT length(bglm_help('laplace')) > 100;", nil, []int{1}, capi.TVarchar, false, callHelp),
		scalar("bglm_macros", "([name])", "The SQL that makes the table macros (bglm_score and others), or the one of that name: a script for clients that have no .read to run as it stands. bglm_help shows what a macro does.",
			"SELECT bglm_macros('bglm_evaluate') LIKE 'CREATE OR REPLACE MACRO %';", nil, []int{0, 1}, capi.TVarchar, false, callMacros),
	}
}

// states show and release the memory of the process.
func states() []entry {
	return []entry{
		scalar("bglm_state", "()", "Aggregate states of this process: live, bytes they hold, leaked (live but untouched for over a second: DuckDB does not release the states of queries that end early), purged. Then memory, what bglm holds in all, beside its budget max_memory in bytes; threads, how many processors it uses; row_budget, that of bglm_fit.",
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
		scalar("bglm_purge", "([idle_seconds])", "Release aggregate states that nothing has touched for that many seconds (default 0: all) and return their number. A query that still uses one fails with an error.",
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
			doc += " Rows are absorbed in the order given by ORDER BY inside the call; without it the parts of several threads are merged by precision sums."
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
	return append(out, one("fit", "The front door: rows are kept while they fit row_budget and then solved by laplace, with prior variances, dispersion and shape learnt; beyond it, or where time, process_noise or forgetting ask for a stream, they go through adf with an arrowhead covariance. The FIT's method says which. The option method names another engine; its other options are those of bglm_<method>.",
		"SELECT f.method, f.status FROM (SELECT bglm_fit(late, {origin: origin}) AS f "+tenRows+");", append(engine.Names(engine.Weights), engine.Auto, "fit"), nil, fitType),
		aggregate("bglm_progressive", "(y, x [, options])",
			"What a stream predicts of each row before it learns it: LIST(STRUCT(y, mean, lower, upper, log_density)) in the order of the rows, the first from the prior: the test of a model without data put aside. The option method names a streaming method (default 'adf'); the other options are those of bglm_<method>. lower and upper are a 95 % interval, of the probability for binary responses, of a new response otherwise. Rows that are skipped are not in the list. Give ORDER BY inside the call.",
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

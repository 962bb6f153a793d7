package sqltest

import (
	"fmt"
	"slices"
	"strings"
)

// asked are calls that ask a fit f about rows; %[1]s is y, %[2]s is x, %[3]s the trailing argument.
var asked = []string{"bglm_loo(f, %[1]s, %[2]s%[3]s)", "bglm_loo_compare({a: f, b: f}, %[1]s, %[2]s%[3]s)", "bglm_loo_compare(MAP {'a': f, 'b': f}, %[1]s, %[2]s%[3]s)",
	"bglm_loo_compare({a: f, b: f}, %[1]s, {a: %[2]s, b: %[2]s}%[3]s)", "bglm_effects(f, %[2]s, COLUMN%[3]s)", "bglm_robust(f, %[1]s, %[2]s%[3]s)", "bglm_robust(f, %[1]s, %[2]s, CLUSTER%[3]s)",
	"bglm_ppc(f, %[1]s, %[2]s, STATISTIC%[3]s)", "bglm_drivers(f, %[2]s%[3]s)"}

// askedOnce are such calls for single rows.
var askedOnce = []string{"bglm_pit(f, %[1]s, %[2]s%[3]s)", "bglm_influence(f, %[1]s, %[2]s%[3]s)", "bglm_loo_predict(f, %[1]s, %[2]s%[3]s)", "bglm_pairs(f, %[2]s, COLUMN%[3]s)", "bglm_contrast(f, %[2]s, OTHER%[3]s)", "bglm_summary(f%[3]s)",
	"bglm_sql(f, DIALECT%[3]s)", "bglm_pmml(f%[3]s)", "bglm_features(%[2]s%[3]s)", "bglm_sample(f, %[2]s, i, 3)"}

// last are trailing arguments by function: options, a level.
var last = map[string][]string{
	"bglm_loo":         {"", "", ", {weight: k}", `, {"offset": d}`, ", {trials: k + 1}", ", NULL", ", {weight: odd}", ", {level: 0.9}", ", 3"},
	"bglm_loo_compare": {"", "", ", {weight: k}", `, {"offset": d}`, ", {weight: -1}", ", {draws: 3}"},
	"bglm_effects":     {"", "", ", {step: 0.5}", ", {step: d}", ", {step: 0}", ", {reference: 'v1'}", ", {reference: 'never'}", ", {reference: 3}", ", {draws: 20, seed: 3}", ", {prediction: 'plugin'}", ", {level: 0.5}", ", {level: 1}", `, {"offset": d}`, ", {draws: -1}", ", NULL"},
	"bglm_robust":      {"", "", ", {type: 'hc0'}", ", {type: 'hc1'}", ", {type: 'hc2'}", ", {type: 'HC3'}", ", {type: 'hc9'}", ", {weight: k}", `, {"offset": odd}`, ", NULL"},
	"bglm_ppc":         {"", ", {draws: 5}", ", {draws: 5, seed: 2, level: 0.5}", ", {draws: 0}", ", {seed: -1}", `, {draws: 5, "offset": d}`, ", NULL"},
	"bglm_drivers":     {"", "", ", 0.5", ", 0", ", NULL", ", 'x'"},
	"bglm_pit":         {"", "", `, {"offset": d}`, ", {trials: k}", ", {weight: 1}", ", NULL"},
	"bglm_influence":   {"", ", {weight: odd}", `, {"offset": d}`, ", {trials: k}"},
	"bglm_loo_predict": {"", ", {weight: odd}", `, {"offset": d}`, ", {trials: k}"},
	"bglm_pairs":       {"", "", ", 0.9", ", d", ", NULL", ", 'x'"},
	"bglm_contrast":    {"", "", ", 0.9", ", d", ", NULL"},
	"bglm_summary":     {"", ", 0.9", ", d", ", {rope: 0.1}", ", {level: 0.5, rope: d}", ", {rope: 'x'}", ", {foo: 1}", ", s"},
	"bglm_sql":         {"", ", {form: 'join'}", ", {form: 'query', prediction: 'mackay'}", `, {"table": s, keep: 'a, s', level: 0.5}`, `, {"table": ''}`, ", {keep: ',,'}", ", {form: s}", ", {prediction: 'plugin', level: d}", ", NULL"},
	"bglm_pmml":        {"", ", 'late'", ", s", ", NULL", ", 3"},
	"bglm_features":    {"", ", {missing: 'absent'}", ", {missing: s}"},
	"bglm_sample":      {""},
}

// asking completes a call of asked or askedOnce.
func (h *Hostile) asking(form, y, x string) string {
	name, _, _ := strings.Cut(form, "(")
	return strings.NewReplacer("COLUMN", h.often([]string{"'*'", "'a'", "'s'", "'S'", "'sn'"}, []string{"'1'", "'zz'", "''", "NULL", "s", "3", "'l'", "'both'"}),
		"CLUSTER", h.often([]string{"g", "s", "i // 3", "{a: g, b: s}"}, []string{"NULL", "odd", "[g]", "1", "sn"}),
		"STATISTIC", h.often([]string{"'mean'", "'sd'", "'zeros'", "'min'", "'MAX'"}, []string{"'median'", "NULL", "s", "3"}),
		"DIALECT", h.often([]string{"'duckdb'", "'sqlite'", "'postgres'", "'bigquery'", "'snowflake'"}, []string{"'oracle'", "NULL", "s", "3"}),
		"OTHER", h.often([]string{x}, slices.Concat(hostileX, badX))).Replace(fmt.Sprintf(form, y, x, pick(h, last[name])))
}

// fitLike is a fit of rows with y and x, mostly.
func (h *Hostile) fitLike(y, x string) string {
	f := pick(h, h.aggregates)
	for f.Name == "bglm_smooth" || f.Name == "bglm_progressive" || f.Name == "bglm_newton_state" {
		f = pick(h, h.aggregates)
	}
	if h.r.IntN(6) == 0 {
		return h.fit()
	}
	return fmt.Sprintf("(SELECT %s(%s, %s%s ORDER BY i) FROM %s)", f.Name, y, x, h.bounded(f, h.options(f)), h.small())
}

// answered asks a fit about rows, with all kinds of grouping.
func (h *Hostile) answered() string {
	y, x := h.often(hostileY, badY), h.often(hostileX, badX)
	fit := h.fitLike(y, x)
	if h.r.IntN(3) == 0 {
		return fmt.Sprintf("SELECT count(%s::VARCHAR) FROM %s, (SELECT %s AS f)", h.asking(pick(h, askedOnce), y, x), h.small(), fit)
	}
	call := h.asking(pick(h, asked), y, x)
	switch h.r.IntN(6) {
	case 0:
		return fmt.Sprintf("SELECT count(a::VARCHAR) FROM (SELECT %s OVER (%s) AS a FROM %s, (SELECT %s AS f))", call,
			pick(h, []string{"", "PARTITION BY g", "ORDER BY i", "ORDER BY i ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"}), h.small(), fit)
	case 1:
		return fmt.Sprintf("SELECT count(%s FILTER (%s)::VARCHAR) FROM %s, (SELECT %s AS f) GROUP BY g", call, pick(h, []string{"b", "bn", "false"}), h.source(), fit)
	case 2: // a fit for each group
		return fmt.Sprintf("SELECT count(a::VARCHAR) FROM (SELECT %s AS a FROM %s JOIN (SELECT g AS h, %s AS f FROM %s GROUP BY g) ON %s GROUP BY %s)", call, h.source(),
			h.fitCall(y, x), h.small(), pick(h, []string{"g = h", "true"}), pick(h, []string{"g", "h", "ALL", "g, h"}))
	case 3:
		call = strings.Replace(call, "(f", "(DISTINCT f", 1)
	case 4:
		call = call[:len(call)-1] + " ORDER BY i DESC)"
	}
	return fmt.Sprintf("SELECT length((%s)::VARCHAR) FROM %s, (SELECT %s AS f)%s", call, h.source(), fit, pick(h, []string{"", " GROUP BY g", " GROUP BY i // 9"}))
}

// fitCall is a plain fit of groups.
func (h *Hostile) fitCall(y, x string) string {
	return fmt.Sprintf("%s(%s, %s)", pick(h, []string{"bglm_laplace", "bglm_adf", "bglm_fit"}), y, x)
}

// sameAnswers are numbers of asked that depend on the order of the rows only by rounding.
var sameAnswers = []string{"(bglm_loo(f, b, %[1]s)%[2]s).elpd_loo", "(bglm_loo(f, b, %[1]s, {weight: w})%[2]s).p_waic", "(bglm_loo_compare({a: f, b: f}, b, %[1]s)%[2]s)[2].looic", "list_max([e.mean for e in bglm_effects(f, %[1]s, '*')%[2]s])",
	"list_max([e.sd for e in bglm_effects(f, %[1]s, '*', {prediction: 'plugin'})%[2]s])", "list_sum([e.variance for e in (bglm_robust(f, b, %[1]s)%[2]s).beliefs])", "list_sum([e.variance for e in (bglm_robust(f, b, %[1]s, k)%[2]s).beliefs])",
	"(bglm_ppc(f, b, %[1]s, 'mean')%[2]s).observed", "(bglm_ppc(f, b, %[1]s, 'sd', {draws: 9})%[2]s).mean", "list_max([e.share for e in bglm_drivers(f, %[1]s)%[2]s])", "list_sum([e.sd for e in bglm_drivers(f, %[1]s)%[2]s])"}

// asksAlike counts the partitions for which a window and a group answer differently.
func (h *Hostile) asksAlike() string {
	x, part := pick(h, pairX), pick(h, pairParts)
	for strings.Contains(x, "NULL::INT") { // nothing was learnt from it
		x = pick(h, pairX)
	}
	form := pick(h, sameAnswers)
	from := fmt.Sprintf("d1, (SELECT %s(b, %s ORDER BY i) AS f FROM d1)", pick(h, []string{"bglm_laplace", "bglm_fit", "bglm_adf"}), x)
	return fmt.Sprintf(counted("differ")+" FROM (SELECT a, r, a IS NULL <> (r IS NULL) OR abs(a - r) > 1e-6 * (1 + abs(r)) AS differ FROM (SELECT (%[1]s)::VARCHAR AS p, %[2]s AS a FROM %[3]s) o JOIN (SELECT (%[1]s)::VARCHAR AS p, %[4]s AS r FROM %[3]s GROUP BY %[5]s) q ON o.p IS NOT DISTINCT FROM q.p)",
		row(part), fmt.Sprintf(form, x, " OVER (PARTITION BY "+part+")"), from, fmt.Sprintf(form, x, ""), part)
}

// passed counts fits by passes over parts that differ from the fit by one pass over all rows.
func (h *Hostile) passed() string {
	y, opt, more := "b", "", []string{"", "prior_variance: 2", "standardize: false", "missing: 'absent'", "intercept: false", "link: 'probit'"}
	if h.r.IntN(3) == 0 {
		y, more = "k", []string{"family: 'poisson'", "family: 'gaussian', dispersion: 2", "family: 'negbinomial', shape: 3"}
	}
	opts := func(all ...string) string {
		all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
		if len(all) == 0 {
			return ""
		}
		return ", {" + strings.Join(all, ", ") + "}"
	}
	x, by, method, around := pick(h, pairX), pick(h, []string{"", "weight: w", `"offset": u`}), pick(h, []string{"", "", "method: 'ep'"}), ""
	opt = pick(h, more)
	if h.r.IntN(2) == 0 { // the two methods differ only around a fit
		around = fmt.Sprintf("around: (SELECT bglm_laplace(%s, %s%s) FROM d1)", y, x, opts(opt))
	}
	if h.r.IntN(3) == 0 { // from state to state; of full rank, since equal singular values are separated by rounding alone
		method, around = "method: 'lowrank', power_iterations: 0, rank: 200", ""
		for range h.r.IntN(5) {
			around = fmt.Sprintf("around: (SELECT [bglm_newton_state(%s, %s%s)] FROM d1)", y, x, opts(opt, method, by, around))
		}
	}
	state := fmt.Sprintf("bglm_newton_state(%s, %s%s)", y, x, opts(opt, method, by, around))
	return fmt.Sprintf(counted("far(a, r)")+" FROM (SELECT bglm_newton_solve(bglm_newton_merge(s)%[1]s) AS a FROM (SELECT %[2]s AS s FROM d1 GROUP BY %[3]s)), (SELECT bglm_newton_solve(%[2]s%[1]s) AS r FROM d1)",
		opts(opt, method), state, pick(h, []string{"g", "s", "i // 3", "k % 2"}))
}

// compressed counts fits that the option compress changes.
func (h *Hostile) compressed() string {
	y, opt := "b", ""
	if h.r.IntN(2) == 0 {
		y, opt = "k", pick(h, []string{", family: 'poisson'", ", family: 'gaussian', dispersion: 2", ", family: 'negbinomial', shape: 3"})
	}
	opt = "prior_variance: 2" + opt + pick(h, []string{"", ", weight: w", `, "offset": w / 4`, ", missing: 'absent'", ", standardize: false"})
	x := pick(h, []string{"{s: s}", "{s: s, b: b}", "{w: w, g: g, sn: sn}", "[w, k]", "MAP {s: w}", "[s, 'z']", "{e: e, w: CASE WHEN k > 0 THEN w END}", "[{feature: s, value: 1.0}, {feature: 'c', value: w}]", "{s: s, both: {e: e, w: w}}"})
	return fmt.Sprintf(counted("far(a, r)")+" FROM (SELECT bglm_laplace(%[1]s, %[2]s, {%[3]s}) AS a, bglm_laplace(%[1]s, %[2]s, {%[3]s, compress: true}) AS r FROM %[4]s GROUP BY %[5]s)",
		y, x, opt, pick(h, []string{"d1", "d2"}), pick(h, []string{"1 = 1", "g", "k"}))
}

// states passes a state of a pass, whole or broken, to functions of states.
func (h *Hostile) states() string {
	cut := pick(h, []string{"s", "s", "''::BLOB", "unhex(hex(s)[1:40])", "unhex(hex(s)[1:len(hex(s)) - 16])", "unhex(hex(s) || 'FFFFFFFF')", "unhex('FF' || hex(s)[3:])", "NULL", "NULL::BLOB", "'x'", "s || s",
		fmt.Sprintf("unhex(hex(s)[1:%[1]d] || '%[2]s' || hex(s)[%[1]d + 1 + len('%[2]s'):])", 2*h.r.IntN(300), pick(h, []string{"FF", "00", "FFFFFFFFFFFFFF7F", "000000000000F07F", "000000000000F8FF"}))})
	use := pick(h, []string{"bglm_newton_solve(%s)", "bglm_newton_solve(%s, {prior_variance: 2})", "bglm_newton_solve(%s, {family: 'poisson'})", "bglm_newton_solve(%s, {foo: 1})", "bglm_newton_solve(%s, {method: 'lowrank'})", "bglm_newton_solve(bglm_newton_merge(%s), {method: 'lowrank'})", "bglm_newton_solve(bglm_newton_merge(%s))", "bglm_newton_merge(%s)"})
	return fmt.Sprintf("SELECT length((%s)::VARCHAR) FROM (SELECT bglm_newton_state(%s, %s%s) AS s FROM %s GROUP BY i %% 3)", fmt.Sprintf(use, cut), h.often(hostileY, badY), h.often(hostileX, badX),
		pick(h, []string{"", "", ", {prior_variance: 2}", ", {family: 'poisson'}", ", {link: 'probit'}", ", {method: 'ep'}", ", {method: 'lowrank'}", ", {around: 3}", ", {around: " + h.fit() + "}"}), h.small())
}

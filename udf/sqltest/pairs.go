package sqltest

import (
	"fmt"
	"slices"
	"strings"
)

const pairColumns = `i, (hash(i) % 3 = 0) AS b, (i * 7919) % 5 AS k, (i % 7)::INT AS g, 'k' || i % 6 AS s, CASE WHEN i % 4 > 0 THEN 'w' || i % 3 END AS sn, sin(i) AS u, cos(i * 0.7) AS v,
 (i % 4)::DOUBLE AS w, (i - 20)::HUGEINT AS h, DATE '2024-01-01' + (i % 40)::INT AS day, [sin(i), i % 3] AS l, MAP {'m': sin(i), 'n' || i % 2: 1.0} AS m, {q: 'v' || i % 3} AS st, {q: i % 5, r: 's' || i % 2} AS sr,
 [sin(i), 1.0]::DOUBLE[2] AS arr, (CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END)::ENUM('even', 'odd') AS e`

var (
	pairX = []string{"{c: 1.5, u: u}", "{u: u, s: s}", "{s: s}", "{u: u}", "{c: 2.5}", "{s: s, c: 1.5::DECIMAL(5,2), b: b}", "{n: h, c: 3::TINYINT}", "{l: [s], u: u}", "{d: day, u: u}",
		"{a: 1, u: u, k: k::UTINYINT}", "struct_update({u: u}, u := 0.5)", "struct_update(st, q := 2.5)", "{a: CASE WHEN i < 1000 THEN 2.5 ELSE u END, u: u}", "{a: coalesce(NULLIF(k, 2), 9), c: 0.5}", "{e: e, u: u, c: 1}",
		"{e: e::VARCHAR}", "{w: l[1]}", "{w: m['m'], c: 1.0}", "{n: NULL::INT, u: u}", "{t: true, u: u}", "struct_insert({c: 1.5}, z := u)", "st", "sr", "arr", "l", "m", "[u, 1.0]", "[u]", "[1.5]", "MAP {'a': u, 'c': 1.5}", "MAP {s: u}", "MAP {'c': 1.0}",
		"[s, 'z']", "[{feature: s, value: u}, {feature: 'c', value: 1.0}]", "[u, k]::DOUBLE[2]", "[h, 1]", "MAP {g: u, 99: 1.0}", "{b: b}", "{day: day}", "{u: CASE WHEN k > 0 THEN u END, sn: sn}", "[u, CASE WHEN k > 1 THEN v END]", "{u: 1e6 * u + 1e9, sn: sn}", "{q: st.q, c: 1}", "[{feature: 'c', value: 1.5}]"}
	// With a constant text beside a column; if the window has an order DuckDB itself follows the
	// text's garbage pointer, so these stay without.
	pairTextX = []string{"{t: 'a constant text of some length', u: u}", "{t: 'short', s: s}", "{l: ['a constant text of some length', 'z'], u: u}", "{t: 'a constant text of some length'}"}
	pairKeys  = []string{"prior_variance: 0.5", "weight: w", "weight: 1.5", "time: i", "prior_mean: 0.25", `"offset": u`, "offset_: v", "intercept: false", "priors: MAP {'u': {mean: 0.5, variance: 2.0}}", "forgetting: 0.99", "weight: k",
		"hash_bits: 6", "intercept_variance: 3", "prior_variance: g + 1", "weight: h + 20", "missing: 'absent'", "missing: 'indicator'", "columns: 'any'"}
	pairFilters = []string{"", " WHERE i < 60", " WHERE i < 30", " WHERE g <> 3", " WHERE hash(i) % 5 > 1", " WHERE u > 0", " WHERE i BETWEEN 40 AND 45", " WHERE g = 2", " WHERE i % 7 IN (1, 2) AND i < 120"}
	pairParts   = []string{"g", "s", "sn", "b", "i // 3", "i", "g, s", "k % 2", "day", "st", "e", "[g, k]"}
	pairOrdered = []string{" ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", " ORDER BY i RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", " ORDER BY i GROUPS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
		" ORDER BY g, i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"}
	pairPlain = []string{"", "", " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
		" RANGE BETWEEN CURRENT ROW AND CURRENT ROW", " GROUPS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"}
	pairBeside = []string{"", ", row_number() OVER (PARTITION BY g ORDER BY i)", ", sum(i) OVER (ORDER BY i)", ", count(*) OVER (PARTITION BY s ORDER BY u)", ", list({c: 2.5, u: u}) OVER (PARTITION BY g)"}
)

// compared is an aggregate whose answer must not depend on how its rows are grouped or, unless it
// is ordered, on their order.
type compared struct {
	function, y, x, opt string
	filter, part        string
	source              string
	ordered             bool
	whole               bool // over all rows, not each part
}

// call is the aggregate with its rows in an order, in any order if that is empty.
func (c *compared) call(order string) string {
	if order != "" {
		order = " ORDER BY " + order
	}
	return fmt.Sprintf("%s(%s, %s%s%s)%s", c.function, c.y, c.x, c.opt, order, c.filter)
}

// differs is true if two answers a and r are not the same.
func (c *compared) differs() string {
	switch {
	case c.ordered:
		return "a IS DISTINCT FROM r"
	case strings.Contains(c.x, "1e9") && c.function == "bglm_adf":
		return "apart(a, r)"
	case strings.Contains(c.x, "1e9"):
		// If a prior is given, such columns are not standardised and Newton's equations may be too
		// ill-conditioned: a fit that has not converged may stop anywhere.
		return "apart(a, r) AND a.converged AND r.converged"
	}
	return "far(a, r)"
}

// counted begins a statement that counts the rows in which a and r differ, and shows both for one,
// as text: a driver may not read lists.
func counted(differ string) string {
	return fmt.Sprintf("SELECT count(*) FILTER (%[1]s), any_value([a::VARCHAR, r::VARCHAR]::VARCHAR) FILTER (%[1]s)", differ)
}

// comparison makes a random compared.
func (h *Hostile) comparison(ordered bool) *compared {
	c := &compared{ordered: ordered, x: pick(h, pairX), whole: h.r.IntN(8) == 0}
	keys := []string{}
	for range h.r.IntN(3) {
		k := pick(h, pairKeys)
		if name, _, _ := strings.Cut(k, ":"); !strings.Contains(strings.Join(keys, " "), strings.Trim(name, `"_`)) {
			keys = append(keys, k)
		}
	}
	c.part = pick(h, pairParts)
	c.function, c.y = pick(h, []string{"bglm_adf", "bglm_ekf", "bglm_sequential_laplace", "bglm_fit"}), "b"
	if !ordered {
		// Without an order only what does not depend on it can be compared.
		c.function = "bglm_laplace"
		if h.r.IntN(2) == 0 {
			c.function, c.y = "bglm_adf", pick(h, []string{"v", "h", "w"})
			keys = append(keys, "family: 'gaussian'", "covariance: 'full'", "standardize: false", "dispersion: 1") // merges are exact
			// But a missing number is replaced by the mean of the rows before it.
			for strings.Contains(c.x, "CASE WHEN k > ") && !slices.Contains(keys, "missing: 'absent'") {
				c.x = pick(h, pairX)
			}
		}
		keys = remove(keys, "forgetting", "time")
		if h.r.IntN(3) == 0 {
			c.x = pick(h, pairTextX)
		}
	}
	if texts := []string{"priors", "missing", "columns"}; ordered && len(remove(keys, texts...)) > 0 {
		keys = remove(keys, texts...) // constant texts beside a column: see pairTextX
	}
	if c.function == "bglm_laplace" || c.function == "bglm_fit" && ordered {
		keys = remove(keys, "forgetting")
	}
	// The first row of a group determines its constants.
	if !strings.HasPrefix(c.part, "g") && c.part != "[g, k]" && c.part != "i" || c.whole && !ordered {
		keys = remove(keys, "prior_variance: g")
	}
	if len(keys) > 0 {
		c.opt = ", {" + strings.Join(keys, ", ") + "}"
	}
	c.source = pick(h, []string{"d1", "d1", "d2"}) + pick(h, pairFilters)
	switch h.r.IntN(4) {
	case 0:
		c.source = "(SELECT * FROM " + c.source + ")"
	case 1:
		c.source = fmt.Sprintf("(SELECT * FROM (SELECT * FROM %s) WHERE i %% %d < 20)", c.source, 21+h.r.IntN(20))
	case 2:
		c.source = "(WITH q AS MATERIALIZED (SELECT * FROM " + c.source + ") SELECT * FROM q)"
	}
	c.filter = pick(h, []string{"", "", "", "", " FILTER (i % 3 > 0)", " FILTER (u > 0)"})
	return c
}

// pair counts the rows where an aggregate over whole partitions differs from the same by GROUP BY,
// and shows both answers for one. It may fail, with an error; it may not differ.
func (h *Hostile) pair() string {
	c := h.comparison(h.r.IntN(2) == 0)
	inside := "" // the order in the window's call
	frame := pick(h, pairPlain)
	if c.ordered && h.r.IntN(2) == 0 {
		inside = "i"
	} else if c.ordered {
		frame = pick(h, pairOrdered)
		if strings.Contains(frame, "g, i") && c.part != "g" && c.part != "g, s" && c.part != "[g, k]" {
			frame = pairOrdered[0]
		}
	}
	beside := pick(h, pairBeside)
	if h.r.IntN(5) == 0 && !slices.Contains(pairTextX, c.x) { // DuckDB shares the argument's vectors between windows
		beside = fmt.Sprintf(", list(%s) OVER (PARTITION BY %s)", c.x, c.part)
	}
	grouped := "" // the order in the group's call
	if c.ordered {
		grouped = "i"
	}
	if differs := c.differs(); c.whole {
		return fmt.Sprintf("%s FROM (SELECT %s OVER (%s) AS a%s FROM %s), (SELECT %s AS r FROM %s)",
			counted(differs), c.call(inside), strings.Replace(strings.TrimSpace(frame), "g, i", "i", 1), beside, c.source, c.call(grouped), c.source)
	} else {
		return fmt.Sprintf("%s FROM (SELECT (%s)::VARCHAR AS p, %s OVER (PARTITION BY %s%s) AS a%s FROM %s) o JOIN (SELECT (%s)::VARCHAR AS p, %s AS r FROM %s GROUP BY %s) q ON o.p IS NOT DISTINCT FROM q.p",
			counted(differs), row(c.part), c.call(inside), c.part, frame, beside, c.source, row(c.part), c.call(grouped), c.source, c.part)
	}
}

// shuffled counts the groups whose answer depends on the order of the rows, or on their division
// among threads, if pair assumes that it does not.
func (h *Hostile) shuffled() string {
	c := h.comparison(false)
	other := fmt.Sprintf("%s AS r FROM %s", c.call("hash(i)"), c.source)
	if h.r.IntN(2) == 0 { // each part of a union is read by a separate thread
		var parts []string
		for k := range 3 {
			parts = append(parts, fmt.Sprintf("SELECT * FROM (SELECT * FROM %s) WHERE hash(i) %% 3 = %d", c.source, k))
		}
		other = fmt.Sprintf("%s AS r FROM (%s)", c.call(""), strings.Join(parts, " UNION ALL "))
	}
	differs := c.differs()
	if c.whole {
		return fmt.Sprintf("%s FROM (SELECT %s AS a FROM %s), (SELECT %s)", counted(differs), c.call("i"), c.source, other)
	}
	return fmt.Sprintf("%[1]s FROM (SELECT (%[2]s)::VARCHAR AS p, %[3]s AS a FROM %[4]s GROUP BY %[5]s) o JOIN (SELECT (%[2]s)::VARCHAR AS p, %[6]s GROUP BY %[5]s) q ON o.p IS NOT DISTINCT FROM q.p",
		counted(differs), row(c.part), c.call("i"), c.source, c.part, other)
}

// columned counts the rows whose prediction depends on the order of the columns of x, their case,
// or on columns unknown to the fit.
func (h *Hostile) columned() string {
	u, s := pick(h, []string{"u", "CASE WHEN k > 0 THEN u END", "1e6 * u + 1e9", "k", "NULL::DOUBLE"}), pick(h, []string{"s", "sn", "e", "b", "[s, sn]"})
	var keys []string
	for _, of := range [][]string{{"standardize: true", "standardize: false"}, {"missing: 'absent'", "missing: 'indicator'", "missing: 'error'"}, {"prior_variance: 2", "intercept: false"}} {
		if h.r.IntN(2) == 0 {
			keys = append(keys, pick(h, of))
		}
	}
	opt := ""
	if keys != nil {
		opt = ", {" + strings.Join(keys, ", ") + "}"
	}
	use := pick(h, []string{"bglm_predict(f, %s)", "bglm_predict_dist(f, %s).eta_variance", "bglm_influence(f, b, %s).leverage"})
	a, b := fmt.Sprintf(use, fmt.Sprintf("{u: %s, s: %s, v: v}", u, s)), fmt.Sprintf(use, fmt.Sprintf("{V: v, day: day, S: %s, k: k, U: %s, other: sr}", s, u))
	return fmt.Sprintf("SELECT count(*) FILTER (p IS NULL <> (q IS NULL) OR abs(p - q) > 1e-9 * (1 + abs(p))) FROM (SELECT %s AS p, %s AS q FROM d1, (SELECT %s(b, {u: %s, s: %s, v: v}%s ORDER BY i) AS f FROM d1 WHERE i < 60))",
		a, b, pick(h, []string{"bglm_adf", "bglm_fit", "bglm_ep", "bglm_laplace", "bglm_sequential_laplace", "bglm_lowrank"}), u, s, opt)
}

// row makes one value from several keys.
func row(keys string) string {
	if strings.HasPrefix(keys, "[") || !strings.Contains(keys, ",") {
		return keys
	}
	return "row(" + keys + ")"
}

// remove removes the keys that begin with one of the prefixes.
func remove(keys []string, prefixes ...string) []string {
	out := []string{}
	for _, k := range keys {
		keep := true
		for _, p := range prefixes {
			keep = keep && !strings.HasPrefix(k, p)
		}
		if keep {
			out = append(out, k)
		}
	}
	return out
}

var numberTypes = []string{"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE",
	"DECIMAL(4,2)", "DECIMAL(9,0)", "DECIMAL(9,5)", "DECIMAL(18,3)", "DECIMAL(18,18)", "DECIMAL(38,0)", "DECIMAL(38,10)", "DECIMAL(38,37)"}

// number counts the rows where a number of some type is treated differently from the DOUBLE of the
// same value.
func (h *Hostile) number() string {
	typ := pick(h, numberTypes)
	scale := pick(h, []string{"1", "0.5", "40", "1e4", "1e9", "1e17", "1e30"})
	value := fmt.Sprintf("TRY_CAST((%s) AS %s)", pick(h, []string{"sin(i) * " + scale, "(i - 15) * " + scale, "i * " + scale, "-i", "i - 3"}), typ)
	if h.r.IntN(6) == 0 {
		value = pick(h, []string{"sum(i - 9) OVER (ORDER BY i)", "sum(-i) OVER (ORDER BY i)", "sum((i - 5)::DECIMAL(9,3)) OVER (ORDER BY i)"})
	}
	use := pick(h, []string{"bglm_features({a: %s})[1].value", "bglm_features([%s])[1].value", "bglm_features(MAP {'a': %s})[1].value", "bglm_features([{feature: 'a', value: %s}])[1].value",
		"bglm_adf(%s, [1.0], {family: 'gaussian', intercept: false}).beliefs[1].mean", "bglm_adf(1, [%s], {family: 'gaussian', intercept: false}).beliefs[1].mean",
		"bglm_adf(1, [1.0], {family: 'gaussian', intercept: false, 'offset': %s}).beliefs[1].mean", "bglm_adf(1, [1.0], {family: 'gaussian', intercept: false, time: %s}).time",
		"bglm_adf(1, [1.0], {family: 'gaussian', intercept: false, weight: %s}).beliefs[1].mean", "bglm_adf(1, [1.0], {family: 'gaussian', intercept: false, prior_mean: %s}).beliefs[1].mean",
		"bglm_rmse(%s, 1)", "bglm_features(MAP {%s: 1.0})[1].value"})
	group := ""
	if strings.Contains(use, "bglm_adf") || strings.Contains(use, "rmse") {
		group = " GROUP BY n"
	}
	return fmt.Sprintf("SELECT count(*) FILTER (x IS NULL <> y IS NULL OR abs(x - y) > 1e-12 * abs(y)) FROM (SELECT %s AS x, %s AS y FROM (SELECT i AS n, %s AS n1, n1::DOUBLE AS n2 FROM range(30) t(i)) WHERE n1 IS NOT NULL%s)",
		fmt.Sprintf(use, "n1"), fmt.Sprintf(strings.Replace(use, "MAP {%s: 1.0}", "MAP {'' || %s: 1.0}", 1), "n2"), value, group)
}

// changes are fields of a FIT with other values; %s is a number that varies by row.
var changes = []string{"mean := %s::DOUBLE", "lengthscale := 0.5 + %s", "signal_variance := 1.0 + %s", "log_evidence := %s::DOUBLE", "n := %s", "dispersion := 1.0 + %s", "shape := 1.0 + %s",
	"beliefs := list_transform(f.beliefs, lambda b: struct_update(b, mean := b.mean + %s))", "beliefs := list_transform(f.beliefs, lambda b: struct_update(b, variance := b.variance * (1 + %s)))",
	"covariance := struct_update(f.covariance, \"values\" := list_transform(f.covariance.\"values\", lambda c: c * (1 + %s)))", "prior := struct_update(f.prior, mean := %s::DOUBLE)", "prior := struct_update(f.prior, variance := 1.0 + %s)",
	"alpha := list_transform(f.alpha, lambda a: a * (1 + %s))", "intercept := %s %% 2 = 0", "prior_mean := %s::DOUBLE", "prior_variance := 1.0 + %s", "x := list_transform(f.x, lambda r: list_transform(r, lambda c: c + %s))"}

var fitOf = []string{"bglm_adf(b, {u: u, s: s} ORDER BY i)", "bglm_adf(b, {u: u, s: s}, {covariance: 'full'} ORDER BY i)", "bglm_adf(b, [u, v], {covariance: 'lowrank', rank: 2} ORDER BY i)", "bglm_laplace(b, {u: u, s: s} ORDER BY i)",
	"bglm_gp(b, [u] ORDER BY i)", "bglm_gp(v, [u], {family: 'gaussian'} ORDER BY i)", "bglm_softmax(s, {u: u} ORDER BY i)", "bglm_softmax(s, {u: u}, {hessian: 'full'} ORDER BY i)", "bglm_laplace(k, {u: u}, {family: 'negbinomial', shape: 2} ORDER BY i)",
	"bglm_lowrank(b, {u: u, s: s}, {rank: 2} ORDER BY i)"}

var fitUses = []string{"bglm_predict(c, %s)", "bglm_predict(c, %s, 'plugin')", "bglm_predict_dist(c, %s)", "bglm_sample(c, %s, 7, 3)", "bglm_influence(c, true, %s)", "bglm_beliefs(c)", "bglm_update(c, [{y: 1, x: %s}])",
	"bglm_summary(c)", "bglm_contrast(c, %[1]s, %[1]s)", "bglm_contrast(c, %s, {u: 1.0, s: 'k2'})", "bglm_pairs(c, %s, 's')", "bglm_pit(c, 1, %s)", "bglm_loo_predict(c, 1, %s)", "bglm_sql(c, 'sqlite')", "bglm_sql(c, 'postgres', {form: 'join'})", "bglm_pmml(c)"}

// changed counts the rows where the result for a FIT that varies by row changes when the rows come
// in the opposite order. DuckDB 1.3 has no struct_update.
func (h *Hostile) changed() string {
	fit := pick(h, fitOf)
	x := pick(h, []string{"{u: 0.5, s: 'k1'}", "[0.5]", "[0.5, 0.25]", "{u: 0.5}"})
	if strings.Contains(fit, "[u]") {
		x = "[0.5]"
	}
	use := pick(h, fitUses)
	if strings.Contains(use, "%s") {
		use = fmt.Sprintf(use, x)
	}
	rows := fmt.Sprintf("SELECT n, (%s)::VARCHAR AS a FROM (SELECT n, struct_update(f, %s) AS c FROM (SELECT n FROM range(6) t(n) ORDER BY n), (SELECT %s AS f FROM d1 WHERE i < 40))",
		use, fmt.Sprintf(pick(h, changes), "n"), fit)
	return fmt.Sprintf("SELECT count(*) FILTER (o.a IS DISTINCT FROM q.a) FROM (%s) o JOIN (%s) q USING (n)", rows, strings.Replace(rows, "ORDER BY n)", "ORDER BY n DESC)", 1))
}

// breaks are fields of a FIT with values that no fit has.
var breaks = []string{"status := 1", "status := NULL", "n := -1", "n := 9223372036854775807", "beliefs := []", "beliefs := NULL", "beliefs := f.beliefs || f.beliefs", "beliefs := list_reverse(f.beliefs)", "beliefs := 3",
	"beliefs := list_transform(f.beliefs, lambda b: struct_update(b, variance := -1.0))", "beliefs := list_transform(f.beliefs, lambda b: struct_update(b, mean := 'nan'::DOUBLE))", "beliefs := list_transform(f.beliefs, lambda b: struct_update(b, feature := NULL))",
	"covariance := NULL", "covariance := struct_update(f.covariance, rank := 4611686018427387904)", "covariance := struct_update(f.covariance, rank := -1)", "covariance := struct_update(f.covariance, \"values\" := [])",
	"covariance := struct_update(f.covariance, \"values\" := list_transform(f.covariance.\"values\", lambda c: -c))", "covariance := struct_update(f.covariance, kind := 'other')", "hash_bits := 99", "format := 99", "format := -1", "family := 'x'",
	"link := chr(27) || 'x'", "method := NULL", "prior := NULL", "prior := struct_update(f.prior, variance := -1.0)", "dispersion := -1.0", "dispersion := 'inf'::DOUBLE", "shape := 0.0", "\"time\" := 'nan'::DOUBLE", "intercept := NULL",
	"alpha := []", "alpha := NULL", "x := []", "x := [[]]", "kernel := 'x'", "lengthscale := 0.0", "lengthscale := -1.0", "signal_variance := 'nan'::DOUBLE", "classes := []", "log_evidence := 'nan'::DOUBLE", "n_skipped := -5", "iterations := -1"}

// fitFields are the fields of the FITs, and otherTypes values of other types for them.
var (
	fitFields = []string{"family", "link", "method", "status", "beliefs", "covariance", "prior", "intercept", "dispersion", "shape", "n", "n_skipped", "log_evidence", "iterations", "converged", "hash_bits", `"time"`, "kernel",
		"lengthscale", "signal_variance", "alpha", "x", "root", "format"}
	otherTypes = []string{"1", "'x'", "true", "NULL", "1.5", "[]", "[1.0]", "[NULL]", "{a: 1}", "MAP {}", "DATE '2024-01-01'", "(-1)::HUGEINT", "''::BLOB", "[[1.0]]", "[{feature: 'a'}]", "{kind: 'lowrank', rank: 4611686018427387904}", "chr(27)"}
)

// crafted passes a FIT with one or two such fields, or fields of another type, to a function that
// accepts one.
func (h *Hostile) crafted() string {
	broken := func() string {
		if h.r.IntN(2) == 0 {
			return pick(h, fitFields) + " := " + pick(h, otherTypes)
		}
		return pick(h, breaks)
	}
	f := fmt.Sprintf("struct_update(f, %s)", broken())
	if h.r.IntN(4) == 0 {
		f = fmt.Sprintf("struct_update(%s, %s)", f, broken())
	}
	x := pick(h, []string{"{u: 0.5, s: 'k1'}", "[0.5]", "[0.5, 0.25]", "{u: 0.5, zz: 3}", "MAP {'u': 1.0}", "NULL"})
	use := pick(h, slices.Concat(fitUses, []string{"bglm_predict(c, %s, 'mackay')", "bglm_merge(c)", "bglm_merge(c, c)", "bglm_adf(true, %s, {prior: c})", "bglm_laplace(1, %s, {prior: c})", "bglm_softmax('k1', %s, {prior: c})",
		"bglm_adf(true, %s, {prior: c, covariance: 'full'})", "bglm_update(c, [{y: 1, x: %s}], {covariance: 'full'})",
		"bglm_loo(c, 1, %s)", "bglm_loo_compare({a: c}, 1, %s)", "bglm_loo_compare(MAP {'a': c}, 1, %s)", "bglm_effects(c, %s, '*')", "bglm_effects(c, %s, 'u')", "bglm_robust(c, 1, %s)", "bglm_robust(c, 1, %s, 3)", "bglm_ppc(c, 1, %s, 'mean', {draws: 9})",
		"bglm_drivers(c, %s)", "bglm_newton_state(1, %s, {around: c})", "bglm_newton_state(1, %s, {around: c, method: 'ep'})"}))
	if strings.Contains(use, "%s") {
		use = fmt.Sprintf(use, x)
	}
	return fmt.Sprintf("SELECT (%s)::VARCHAR FROM (SELECT %s AS c FROM (SELECT %s AS f FROM d1 WHERE i < 40))", use, f, pick(h, fitOf))
}

// known counts the groups in which rows that can move no weight, since they are all zero or have
// only known weights, are missing from n.
func (h *Hostile) known() string {
	x := pick(h, []string{"[0.0]", "[0.0, 0.0]", "{z: 0.0}", "MAP {'z': 0.0}", "{z: 0, y: 0.0}"})
	opt := "intercept: false"
	if h.r.IntN(2) == 0 {
		x, opt = pick(h, []string{"[u]", "{u: u, s: s}", "[u, 0.0]"}), "prior_variance: 0, intercept_variance: 0"
	}
	function := pick(h, []string{"bglm_adf", "bglm_ekf", "bglm_sequential_laplace", "bglm_variational", "bglm_ep", "bglm_laplace"})
	if function == "bglm_ekf" || function == "bglm_ep" || function == "bglm_laplace" {
		opt += pick(h, []string{"", ", max_iter: 2", ", max_iter: 5"})
	}
	return fmt.Sprintf("SELECT count(*) FILTER (f.n <> n) FROM (SELECT %s(b, %s, {%s} ORDER BY i) AS f, count(*) AS n FROM d1 WHERE i < %d GROUP BY g)", function, x, opt, 1+h.r.IntN(40))
}

package sqltest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/bglm/bglm/udf"
)

// Hostile generates random statements about bglm's functions: odd types, NULLs, non-finite numbers,
// wrong options, every kind of grouping and window, little memory. Each is a function of the seed.
// They may fail, with an error that a user can read; nothing else may happen.
type Hostile struct {
	r          *rand.Rand
	aggregates []udf.Function // those that fit
	others     []udf.Function
}

// NewHostile returns the generator for a seed.
func NewHostile(seed uint64) *Hostile {
	h := &Hostile{r: rand.New(rand.NewPCG(seed, 0xb91))}
	for _, f := range udf.Functions() {
		switch {
		case f.Kind == "aggregate" && strings.HasPrefix(f.Signature, f.Name+"(y, x"):
			h.aggregates = append(h.aggregates, f)
		case f.Name != "bglm_purge": // it would purge states of other queries
			h.others = append(h.others, f)
		}
	}
	return h
}

func pick[T any](h *Hostile, of []T) T { return of[h.r.IntN(len(of))] }

// often picks mostly from the first list, to get past the first check.
func (h *Hostile) often(good, bad []string) string {
	if h.r.IntN(5) > 0 {
		return pick(h, good)
	}
	return pick(h, bad)
}

// setting is a statement that a connection may be given at any time.
func (h *Hostile) setting() string {
	return pick(h, []string{"SET threads = 1", "SET threads = 2", "SET threads = 8", "SET memory_limit = '200MB'", "SET memory_limit = '2GB'",
		"SET preserve_insertion_order = false", "SET preserve_insertion_order = true"})
}

const hostileColumns = `i, i % 7 AS g, (i * 7919) % 11 < 4 AS b, CASE WHEN i % 9 > 0 THEN (i * 7919) % 11 < 4 END AS bn,
 (i % 6) AS k, sin(i * 1.7) AS d, CASE i % 8 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN 'inf'::DOUBLE WHEN 2 THEN NULL ELSE i / 3.0 END AS odd,
 'v' || (i % 5) AS s, CASE WHEN i % 4 > 0 THEN 'w' || (i % 3) END AS sn, DATE '2024-01-01' + (i % 40)::INT AS day`

func (h *Hostile) source() string {
	n := pick(h, []int{0, 1, 2, 3, 9, 60, 60, 300, 3000})
	return fmt.Sprintf("(SELECT %s FROM range(%d) t(i)) t", hostileColumns, n)
}

var (
	hostileY = []string{"b", "bn", "k", "d", "(k > 2)::INT", "abs(d) + 0.1", "s"}
	badY     = []string{"odd", "NULL", "-1", "1e308", "[1]", "{a: 1}", "day", "'x'", "i::HUGEINT", "0.5::DECIMAL(4,2)", "''::BLOB", "(-i)::HUGEINT", "i::UHUGEINT",
		"(d * 1e6)::DECIMAL(38,12)", "INTERVAL 1 DAY", "TIME '12:00:00'", "'101'::BIT", "uuid()", "'b'::ENUM('a', 'b')"}
	hostileX = []string{"{a: d}", "{a: d, s: s}", "{s: s, sn: sn, b: b}", "[d, 1.0]", "[d, d * d, k]::DOUBLE[3]", "[s, sn]", "MAP {s: d}", "MAP {k: d}",
		"[{feature: s, value: d}, {feature: s, value: 1.0}]", "{l: [s, 'z'], d: day}", "[d]::FLOAT[]", "{a: CASE WHEN k > 1 THEN d END, s: sn}", "{A: d, S: sn, b: bn}", "[d, CASE WHEN k > 1 THEN d END]", "{a: 1e6 * d + 1e9, s: s}",
		"{a: CASE WHEN k > 2 THEN 1e-9 * d END}", "{l: CASE WHEN k > 1 THEN [s, sn] END, a: d}", "{s: s, both: {s: sn, a: d}}", "{a: 1, b: 2.5::DECIMAL(5,2), c: 3::TINYINT}"}
	badX = []string{"NULL", "{a: odd}", "[odd]", "[]", "[NULL]", "MAP {}", "1", "s", "{a: {b: 1}}", "[[1.0]]", "[1e300, d]", "{a: 1e-300}", "struct_pack()",
		"MAP {s: s}", "[{feature: NULL::VARCHAR, value: d}]", "[{feature: s, value: odd}]", "MAP {NULL::VARCHAR: 1}", "''::BLOB", "list_value()", "range(300)",
		"{a: (-i)::HUGEINT, b: i::UHUGEINT, c: d::DECIMAL(38,20)}", "MAP {(-i)::HUGEINT: d}", "[(-i)::HUGEINT]", "{t: TIME '12:00:00'}", "{a: INTERVAL 1 DAY}", "{e: 'b'::ENUM('a', 'b')}",
		"{\"a\x1b[2J\": d}", "{a: repeat('long', 100 + i % 3)}", "MAP {repeat('n', 70000): d}", "[{feature: 'ctl' || chr(27) || chr(10) || s, value: odd}]", "MAP {chr(155) || s: odd}", "{z: 0.0}", "[0.0, 0]", "t",
		"{a: NULL::DOUBLE, s: NULL::VARCHAR}", "{a: NULL, s: s}", "[NULL, NULL]::DOUBLE[]", "{\"a IS NULL\": d, a: CASE WHEN k > 1 THEN d END}", "{\"a=b\": s, a: 'b=' || s}"}
	hostileKeys = []string{"family: 'poisson'", "family: 'gaussian'", "family: 'gamma'", "family: 'negbinomial'", "family: 'studentt'", "link: 'probit'", "link: 'logit'", "link: 'cloglog'",
		"link: 'identity'", "link: 'log'", "prior_mean: 0.5", "prior_variance: 2", "prior_variance: 'auto'", "intercept: false", "intercept_variance: 1", "priors: MAP {'a': {mean: 1, variance: 0}}",
		"priors: [{feature: 's=v1', mean: 0.0, variance: 3.0}]", "dispersion: 0.5", "dispersion: 'auto'", "shape: 2", "shape: 'auto'", "process_noise: 0.01", "process_noise: 'auto'",
		"process_noise: MAP {'a': 0.1}", "forgetting: 0.9", "quadrature: 20", "quadrature: 'auto'", "covariance: 'full'", "covariance: 'arrowhead'", "covariance: 'lowrank'", "covariance: 'diagonal'", "max_iter: 3",
		"tol: 1e-3", "damping: 0.5", "measurement_noise: 'auto'", "measurement_noise: 0.2", "noise_floor: 0.01", "rank: 2", "oversample: 0", "power_iterations: 0", "hessian: 'full'",
		"hessian: 'diagonal'", "hessian: 'block'", "hessian: 'lowrank'", "kernel: 'matern52'", "lengthscale: 'auto'", "signal_variance: 2", "mean: 'auto'", "at: MAP {'a': 0.5}",
		"reference: 'v1'", "standardize: true", "standardize: false", "standardize: 'auto'", "missing: 'indicator'", "missing: 'absent'", "missing: 'error'", "columns: 'any'", "columns: 'exact'", "hash_bits: 3", "seed: 7", "max_features: 3", "on_error: 'skip'", "on_error: 'null'", "weight: k", "weight: odd", "offset: d", "offset: odd",
		"trials: k + 1", "time: i", "time: day", "time: -i", "weight: i::HUGEINT", "offset: (-k)::HUGEINT", "trials: (k + 1)::UHUGEINT", "time: d::DECIMAL(20,3)", "prior_variance: 0", "intercept_variance: 0", "method: 'ep'", "method: 'laplace'", "method: 'ekf'", "time_limit: 1", "third_order: true"}
	badKeys = []string{"prior_variance: -1", "prior_mean: 'nan'::DOUBLE", "link: 'lgoit'", "family: 3", "foo: 1", "weight: -1", "weight: 'a'", "prior: 1", "prior_variance: 0", "rank: 0",
		"seed: -1", "time_limit: 0.000001", "hash_bits: 99", "prior_variance: 1e300", "prior_variance: 1e-300", "offset: 1e308", "weight: 1e300", "process_noise: 1e300", "max_iter: 0",
		"at: 3", "kernel: 'x'", "covariance: [[1.0]]", "quadrature: 1", "tol: 2", "missing: 'none'", "missing: NULL", "columns: 3", "standardize: 'no'", "standardize: 2", "dispersion: 1e-300", "shape: 1e300", "intercept: NULL", "link: NULL", "prior: NULL"}
)

func (h *Hostile) options(f udf.Function) string {
	switch h.r.IntN(8) {
	case 0, 1:
		return ""
	case 2:
		return ", NULL"
	}
	keys := []string{}
	if f.Name == "bglm_hmc" || f.Name == "bglm_fit" { // the defaults take seconds
		keys = append(keys, "samples: 20", "warmup: 20", "chains: 2")
	}
	if f.Name == "bglm_softmax" { // numbers as labels are hundreds of classes
		keys = append(keys, "time_limit: 5")
	}
	for range 1 + h.r.IntN(3) {
		k := h.often(hostileKeys, badKeys)
		name, _, _ := strings.Cut(k, ":")
		// Mostly options that the function has: others fail at the first check.
		if h.r.IntN(10) > 0 && !slices.Contains(f.Options, name) {
			continue
		}
		if !slices.ContainsFunc(keys, func(o string) bool { return strings.HasPrefix(o, name+":") }) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return ", {" + reserved.Replace(strings.Join(keys, ", ")) + "}"
}

// bounded adds to the options of slow methods those that make them fast.
func (h *Hostile) bounded(f udf.Function, opt string) string {
	switch {
	case f.Name == "bglm_hmc" && !strings.Contains(opt, "samples"):
		return ", {samples: 20, warmup: 20, chains: 2}"
	case f.Name == "bglm_softmax" && !strings.Contains(opt, "time_limit"):
		return ", {time_limit: 5}"
	}
	return opt
}

// reserved quotes the option names that are keywords of SQL.
var reserved = strings.NewReplacer("offset: ", `"offset": `, "at: ", `"at": `)

func (h *Hostile) call(f udf.Function, order bool) string {
	o := ""
	if order {
		o = pick(h, []string{"", " ORDER BY i", " ORDER BY d DESC, i", " ORDER BY odd"})
	}
	distinct := ""
	if h.r.IntN(12) == 0 {
		distinct, o = "DISTINCT ", ""
	}
	x := h.often(hostileX, badX)
	y := h.often(hostileY, badY)
	if f.Name == "bglm_gp" && h.r.IntN(3) > 0 {
		x = "[d, k]::DOUBLE[]"
		// Cubes of 3,000 rows take most of a minute, and DuckDB half of one to write such a FIT as
		// text.
		y = "CASE WHEN i < 1000 THEN " + y + " END"
	}
	opt := h.bounded(f, h.options(f))
	return fmt.Sprintf("%s(%s%s, %s%s%s)", f.Name, distinct, y, x, opt, o)
}

// small is a source for calls that are made many times.
func (h *Hostile) small() string {
	return fmt.Sprintf("(SELECT %s FROM range(%d) t(i)) t", hostileColumns, pick(h, []int{0, 1, 5, 40}))
}

// fit is an expression for one fit, as a subquery.
func (h *Hostile) fit() string {
	return fmt.Sprintf("(SELECT %s FROM %s)", h.call(pick(h, h.aggregates), true), h.small())
}

// Statement is a generated statement.
type Statement struct {
	SQL string `json:"sql"`
	// Zero says that the statement counts differences: if it succeeds, its one value is 0. Must
	// says that it has to succeed.
	Zero bool `json:"zero"`
	Must bool `json:"must"`
}

// HostileSetup prepares what the statements read; run it first on every connection.
func HostileSetup() []string {
	return []string{
		"CREATE TABLE IF NOT EXISTS d1 AS SELECT " + pairColumns + " FROM range(300) t(i)",
		"CREATE TABLE IF NOT EXISTS d2 AS SELECT " + pairColumns + " FROM range(5000) t(i)",
		// Equal up to rounding: the order of the rows is free.
		`CREATE OR REPLACE TEMP MACRO far(a, b) AS a.n IS DISTINCT FROM b.n OR len(a.beliefs) IS DISTINCT FROM len(b.beliefs) OR coalesce(list_bool_or(list_transform(list_zip(a.beliefs, b.beliefs),
 lambda z: z[1].feature <> z[2].feature OR abs(z[1].mean - z[2].mean) > 1e-5 * (1 + abs(z[2].mean)) OR abs(z[1].variance - z[2].variance) > 1e-5 * (1 + z[2].variance))), false)`,
		// Columns a billion times farther from 0 than their width leave some digits less: the
		// difference is measured relative to the posterior.
		`CREATE OR REPLACE TEMP MACRO apart(a, b) AS a.n IS DISTINCT FROM b.n OR len(a.beliefs) IS DISTINCT FROM len(b.beliefs) OR coalesce(list_bool_or(list_transform(list_zip(a.beliefs, b.beliefs),
 lambda z: z[1].feature <> z[2].feature OR abs(z[1].mean - z[2].mean) > 1e-3 * sqrt(z[2].variance) OR abs(z[1].variance / z[2].variance - 1) > 1e-5)), false)`,
	}
}

// Next is a statement.
func (h *Hostile) Next() Statement {
	switch k := h.r.IntN(36); {
	case k < 6:
		return Statement{SQL: h.pair(), Zero: true}
	case k < 8:
		return Statement{SQL: h.number(), Zero: true}
	case k < 10:
		return Statement{SQL: h.changed(), Zero: true}
	case k < 14:
		return Statement{SQL: h.crafted()}
	case k < 15:
		return Statement{SQL: h.known(), Zero: true, Must: true}
	case k < 16:
		return Statement{SQL: h.columned(), Zero: true}
	case k < 21:
		return Statement{SQL: h.answered()}
	case k < 23:
		return Statement{SQL: h.asksAlike(), Zero: true}
	case k < 24:
		return Statement{SQL: h.passed(), Zero: true}
	case k < 25:
		return Statement{SQL: h.compressed(), Zero: true}
	case k < 26:
		return Statement{SQL: h.states()}
	case k < 27:
		return Statement{SQL: h.shuffled(), Zero: true}
	}
	return Statement{SQL: h.statement()}
}

func (h *Hostile) statement() string {
	f := pick(h, h.aggregates)
	switch h.r.IntN(16) {
	case 0:
		return h.setting()
	case 1, 2:
		return fmt.Sprintf("SELECT length(%s::VARCHAR) FROM %s", h.call(f, true), h.source())
	case 3, 4:
		return fmt.Sprintf("SELECT count(*), max(length(f::VARCHAR)) FROM (SELECT %s, %s AS f FROM %s GROUP BY %s)",
			"1", h.call(f, true), h.source(), pick(h, []string{"g", "s", "sn", "i", "i // 2", "ALL"}))
	case 5:
		return fmt.Sprintf("SELECT count(f::VARCHAR) FROM (SELECT %s FILTER (%s) AS f FROM %s GROUP BY g)", h.call(f, true), pick(h, []string{"b", "bn", "k > 3", "false"}), h.source())
	case 6, 7:
		frame := pick(h, []string{"", "PARTITION BY g", "ORDER BY i", "PARTITION BY g ORDER BY i", "ORDER BY i ROWS BETWEEN 4 PRECEDING AND CURRENT ROW",
			"PARTITION BY s ORDER BY i ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING", "ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
			"ORDER BY i ROWS BETWEEN 5 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW", "ORDER BY k RANGE BETWEEN 1 PRECEDING AND CURRENT ROW"})
		call := strings.ReplaceAll(h.call(f, false), "range(300)", "range(30)") // each row is a fit of its own
		return fmt.Sprintf("SELECT count(f::VARCHAR) FROM (SELECT %s OVER (%s) AS f FROM %s)", call, frame, h.small())
	case 8:
		return fmt.Sprintf("SELECT %s AS f FROM %s GROUP BY i LIMIT %d", h.call(f, true), h.source(), h.r.IntN(4))
	case 9, 10:
		return fmt.Sprintf("SELECT count(*) FROM (SELECT %s::VARCHAR AS p FROM %s, (SELECT %s AS f))",
			fmt.Sprintf(pick(h, []string{"bglm_predict(f, %s)", "bglm_predict(f, %s, 'mackay')", "bglm_predict(f, %s, s)", "bglm_predict_dist(f, %s)",
				"bglm_predict_dist(f, %s, d)", "bglm_features(%s)", "bglm_features(%s, {missing: s})", "bglm_contrast(f, %[1]s, %[1]s)", "bglm_sample(f, %s, 1, i)", "bglm_influence(f, b, %s)", "bglm_loo_predict(f, b, %s)"}), h.often(hostileX, badX)), h.small(), h.fit())
	case 11:
		return fmt.Sprintf("SELECT length(bglm_update(f, (SELECT list({y: %s, x: %s%s}) FROM %s)%s)::VARCHAR) FROM (SELECT %s AS f)",
			h.often(hostileY, badY), h.often(hostileX, badX), pick(h, []string{"", ", time: i", ", weight: k", `, "offset": odd`}), h.small(),
			h.options(f), h.fit())
	case 12:
		return fmt.Sprintf("SELECT length(bglm_merge(f%s)::VARCHAR) FROM (SELECT %s AS f FROM %s GROUP BY g)", pick(h, []string{"", "", ", NULL", ", " + h.fit()}),
			h.call(f, true), h.source())
	case 13:
		return fmt.Sprintf("SELECT %s::VARCHAR FROM %s GROUP BY g", h.any("aggregate"), h.source())
	case 14:
		return fmt.Sprintf("SELECT count(%s::VARCHAR) FROM %s", h.any("scalar"), h.small())
	}
	key := pick(h, []string{"prior: " + h.fit(), "prior: " + h.fit() + ", process_noise: 0.1", "prior: " + h.fit() + ", time: i"})
	return fmt.Sprintf("SELECT length(%s(%s, %s, {%s} ORDER BY i)::VARCHAR) FROM %s", f.Name, h.often(hostileY, badY), h.often(hostileX, badX), key, h.small())
}

// any calls a function of a kind with arguments of any type and number.
func (h *Hostile) any(kind string) string {
	var of []udf.Function
	for _, f := range h.others {
		if f.Kind == kind {
			of = append(of, f)
		}
	}
	f := pick(h, of)
	var args []string
	for range h.r.IntN(5) {
		args = append(args, pick(h, slices.Concat(hostileY, badY, hostileX, badX, []string{"0.3", "{y: b, x: {a: d}}", "[{feature: 'a', mean: d, variance: 1.0}]"})))
	}
	return f.Name + "(" + strings.Join(args, ", ") + ")"
}

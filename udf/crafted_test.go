package udf

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest/invariant"
	"github.com/bglm/bglm/udf/internal/capi"
)

var (
	craftedN    = flag.Int("crafted", 5000, "how many crafted FITs go through the functions without a database")
	craftedSQL  = flag.Int("crafted-sql", 150, "how many crafted FITs go through SQL")
	craftedSeed = flag.Uint64("crafted-seed", 1, "seed of the crafted FITs")
)

// node is a value with its type: what a FIT is made of.
type node struct {
	t    *capi.Type
	null bool
	f    float64
	i    int64
	s    string
	kids []*node // entries of a list, fields of a STRUCT
}

// nodeOf makes a node of what the driver hands over.
func nodeOf(t testing.TB, v any, typ *capi.Type) *node {
	n := &node{t: typ, null: v == nil}
	switch x := v.(type) {
	case nil:
		if typ.ID == capi.Struct {
			for _, f := range typ.Fields {
				n.kids = append(n.kids, nodeOf(t, nil, f.Type))
			}
		}
	case float64:
		n.f = x
	case int64:
		n.i = x
	case int32:
		n.i = int64(x)
	case bool:
		if x {
			n.i = 1
		}
	case string:
		n.s = x
	case []any:
		for _, e := range x {
			n.kids = append(n.kids, nodeOf(t, e, typ.Elem))
		}
	case map[string]any:
		for _, f := range typ.Fields {
			n.kids = append(n.kids, nodeOf(t, x[f.Name], f.Type))
		}
	default:
		t.Fatalf("a value of type %T", v)
	}
	return n
}

func (n *node) clone() *node {
	c := *n
	c.kids = nil
	for _, k := range n.kids {
		c.kids = append(c.kids, k.clone())
	}
	return &c
}

// write appends n to a column of its type.
func (n *node) write(c *capi.Col) {
	if n.null {
		c.Null()
		return
	}
	switch n.t.ID {
	case capi.Double:
		c.Float(n.f)
	case capi.Varchar:
		c.Str(n.s)
	case capi.List:
		for _, k := range n.kids {
			k.write(c.Elem())
		}
		c.EndList()
	case capi.Struct:
		for i, k := range n.kids {
			k.write(c.Field(i))
		}
		c.EndStruct()
	default:
		c.Int(n.i)
	}
}

// sql is n as a literal.
func (n *node) sql() string {
	if n.null {
		return "NULL::" + sqlType(n.t)
	}
	switch n.t.ID {
	case capi.Double:
		return fmt.Sprintf("'%v'::DOUBLE", n.f)
	case capi.Varchar:
		return "'" + strings.ReplaceAll(n.s, "'", "''") + "'"
	case capi.Boolean:
		return fmt.Sprint(n.i != 0)
	case capi.List:
		parts := make([]string, len(n.kids))
		for i, k := range n.kids {
			parts[i] = k.sql()
		}
		return "[" + strings.Join(parts, ", ") + "]::" + sqlType(n.t)
	case capi.Struct:
		parts := make([]string, len(n.kids))
		for i, k := range n.kids {
			parts[i] = `"` + n.t.Fields[i].Name + `": ` + k.sql()
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprintf("(%d)::%s", n.i, n.t)
}

// sqlType is the type with its names quoted.
func sqlType(t *capi.Type) string {
	switch t.ID {
	case capi.List:
		return sqlType(t.Elem) + "[]"
	case capi.Struct:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = `"` + f.Name + `" ` + sqlType(f.Type)
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")"
	}
	return t.String()
}

func (n *node) field(name string) *node {
	for i, f := range n.t.Fields {
		if strings.EqualFold(f.Name, name) {
			return n.kids[i]
		}
	}
	return nil
}

// real FITs of every kind, by SQL.
var realFits = []struct{ name, query string }{
	{"adf", "SELECT bglm_adf(y, {a: u, s: s}, {link: 'probit', covariance: 'diagonal'} ORDER BY i) FROM d"},
	{"adf hashed", "SELECT bglm_adf(y, {a: u, s: s}, {hash_bits: 4, time: i, process_noise: 0.01, covariance: 'diagonal'} ORDER BY i) FROM d"},
	{"adf full", "SELECT bglm_adf(y, {a: u, s: s}, {covariance: 'full'} ORDER BY i) FROM d"},
	{"adf lowrank", "SELECT bglm_adf(y, {a: u, s: s}, {covariance: 'lowrank', rank: 2} ORDER BY i) FROM d"},
	{"ep full", "SELECT bglm_ep(y, {a: u, s: s}, {covariance: 'full'}) FROM d"},
	{"ep diagonal", "SELECT bglm_ep(y, {a: u, s: s}, {covariance: 'diagonal'}) FROM d"},
	{"laplace full", "SELECT bglm_laplace(c, [u, w], {family: 'negbinomial', hessian: 'full', shape: 2}) FROM d"},
	{"laplace diagonal", "SELECT bglm_laplace(c, [u, w], {family: 'poisson', hessian: 'diagonal'}) FROM d"},
	{"laplace block", "SELECT bglm_laplace(y, {a: u, s: s}, {hessian: 'block'}) FROM d"},
	{"laplace lowrank", "SELECT bglm_laplace(y, {a: u, s: s}, {hessian: 'lowrank', rank: 2}) FROM d"},
	{"lowrank", "SELECT bglm_lowrank(u, {a: w, s: s}, {family: 'gaussian', rank: 2}) FROM d"},
	{"known", "SELECT bglm_laplace(y, {a: u, s: s}, {hessian: 'full', priors: MAP {'a': {mean: 0.5, variance: 0.0}}}) FROM d"},
	{"studentt", "SELECT bglm_adf(u, {a: w}, {family: 'studentt', dispersion: 0.5, covariance: 'diagonal'}) FROM d"},
	{"units", "SELECT bglm_adf(100 * u, {a: 50 + 8 * w, b: u, s: s}, {family: 'gaussian', covariance: 'full', standardize: true} ORDER BY i) FROM d WHERE i < 12"},
	{"counts", "SELECT bglm_adf(c, {a: 50 + 8 * w}, {family: 'negbinomial', shape: 'auto', covariance: 'diagonal', standardize: true} ORDER BY i) FROM d"},
	{"merged", "SELECT bglm_merge(f) FROM (SELECT bglm_laplace(y, {a: u, s: s}, {hessian: 'full'}) AS f FROM d GROUP BY i % 2)"},
	{"from_beliefs", "SELECT bglm_from_beliefs([{feature: 'a', mean: 0.5, variance: 1.0}, {feature: '10', mean: 1.0, variance: 2.0}, {feature: '9', mean: 0.0, variance: 0.5}], {family: 'gamma', shape: 2, covariance: [[1.0, 0.2, 0.1], [0.2, 2.0, 0.3], [0.1, 0.3, 0.5]]})"},
	{"arrowhead", "SELECT bglm_adf(y, {a: u, s: s}, {covariance: 'arrowhead', standardize: true} ORDER BY i) FROM d"},
	{"arrowhead time", "SELECT bglm_adf(c, {a: u, s: s, b: 100 + 3 * w}, {family: 'negbinomial', shape: 'auto', covariance: 'arrowhead', time: i, process_noise: 0.01} ORDER BY i) FROM d"},
	{"fit", "SELECT bglm_fit(y, {a: u, s: s}) FROM d"},
	{"fit counts", "SELECT bglm_fit(c, {a: 50 + 8 * u, s: s, b: CASE WHEN i % 7 > 0 THEN w END}, {family: 'negbinomial'}) FROM d"},
	{"fit gaussian", "SELECT bglm_fit(u, {a: w, s: s}, {family: 'gaussian'}) FROM d"},
	{"correlated", "SELECT bglm_laplace(u, {a: w, s: s, 'a:s': {a: w, s: s}}, {family: 'gaussian', correlated: [['s', 'a:s']]}) FROM d"},
	{"crossed", "SELECT bglm_fit(y, {a: u, s: s, 'a:s': {a: u, s: s}}) FROM d"},
	{"empty", "SELECT bglm_from_beliefs([], {intercept: false})"},
	{"softmax", "SELECT bglm_softmax(s, {a: u, b: w}, {hessian: 'full'}) FROM d"},
	{"softmax diagonal", "SELECT bglm_softmax(s, {a: u}, {hessian: 'diagonal', reference: 'k0'}) FROM d"},
	{"softmax lowrank", "SELECT bglm_softmax(s, {a: u, b: w}, {hessian: 'lowrank', rank: 2}) FROM d"},
	{"gp", "SELECT bglm_gp(y, [u], {lengthscale: 0.5} ORDER BY i) FROM d WHERE i < 8"},
	{"gp studentt", "SELECT bglm_gp(u, [w, u], {family: 'studentt', kernel: 'linear', dispersion: 0.1} ORDER BY i) FROM d WHERE i < 6"},
}

func craftedDB(t testing.TB) *sql.Conn {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := Register(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.ExecContext(context.Background(), "CREATE TABLE d AS SELECT i, hash(i) % 3 = 0 AS y, (hash(i) % 5)::INT AS c, sin(i) AS u, cos(2 * i) AS w, 'k' || i % 3 AS s FROM range(40) t(i)"); err != nil {
		t.Fatal(err)
	}
	return c
}

func typeOf(name string) *capi.Type {
	switch {
	case strings.HasPrefix(name, "softmax"):
		return classesType
	case strings.HasPrefix(name, "gp"):
		return gpType
	}
	return fitType
}

func readReal(t testing.TB, c *sql.Conn) (out []*node) {
	for _, r := range realFits {
		var v any
		if err := c.QueryRowContext(context.Background(), r.query).Scan(&v); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		out = append(out, nodeOf(t, v, typeOf(r.name)))
	}
	return out
}

// leaves lists the nodes below n, n too.
func (n *node) leaves(out []*node) []*node {
	out = append(out, n)
	for _, k := range n.kids {
		out = k.leaves(out)
	}
	return out
}

var oddNumbers = []float64{0, math.Copysign(0, -1), 1, -1, 2, 0.5, -0.5, 1e-300, 5e-324, 1e154, -1e154, 1e300, 1e308, math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1), 3, 1e16, 4611686018427387904}

var oddInts = []int64{0, 1, -1, 2, 3, 7, 30, 31, math.MaxInt32, math.MinInt32, 1 << 53, 1<<53 + 1, 4611686018427387904, math.MaxInt64, math.MinInt64, 1 << 31, 1 << 32}

var oddTexts = []string{"", "x", "ok", "full", "diagonal", "lowrank", "block", "bernoulli", "binomial", "gaussian", "poisson", "negbinomial", "gamma", "studentt", "multinomial", "softmax",
	"logit", "probit", "cloglog", "identity", "log", "rbf", "matern32", "matern52", "linear", "adf", "laplace", "ep", "merge", "(Intercept)", "1", "2", "10", "a", "s=k0", "k0", "k1", "LOGIT ", "a name longer than twelve bytes", "#3"}

// mutate changes one thing somewhere in n.
func mutate(rng *rand.Rand, n *node) {
	all := n.leaves(nil)
	k := all[rng.IntN(len(all))]
	// Lists of numbers have most of the nodes; the others shall have their turn.
	if rng.IntN(3) > 0 {
		k = n
		for k.t.ID == capi.Struct && len(k.kids) > 0 {
			k = k.kids[rng.IntN(len(k.kids))]
		}
	}
	if rng.IntN(12) == 0 {
		k.null = true
		for _, e := range k.leaves(nil) {
			e.null = e.null || k.t.ID == capi.Struct
		}
		return
	}
	k.null = false
	switch k.t.ID {
	case capi.Double:
		switch rng.IntN(4) {
		case 0:
			k.f = -k.f
		case 1:
			k.f *= 1 + 1e-3*rng.NormFloat64()
		default:
			k.f = oddNumbers[rng.IntN(len(oddNumbers))]
		}
	case capi.BigInt:
		k.i = oddInts[rng.IntN(len(oddInts))]
	case capi.Integer:
		k.i = int64(int32(oddInts[rng.IntN(len(oddInts))]))
	case capi.Boolean:
		k.i = 1 - k.i
	case capi.Varchar:
		k.s = oddTexts[rng.IntN(len(oddTexts))]
	case capi.List:
		if len(k.kids) == 0 {
			if k.t.Elem.ID == capi.Double {
				k.kids = append(k.kids, &node{t: k.t.Elem, f: oddNumbers[rng.IntN(len(oddNumbers))]})
			}
			return
		}
		a, b := rng.IntN(len(k.kids)), rng.IntN(len(k.kids))
		switch rng.IntN(6) {
		case 0:
			k.kids = slices.Delete(k.kids, a, a+1)
		case 1:
			k.kids = slices.Insert(k.kids, b, k.kids[a].clone())
		case 2, 3:
			k.kids[a], k.kids[b] = k.kids[b], k.kids[a]
		case 4:
			slices.Reverse(k.kids)
		case 5:
			k.kids = k.kids[:rng.IntN(len(k.kids)+1)]
		}
	case capi.Struct:
		retype(rng, n)
	}
}

// retype gives a field of n another type or name, adds one or takes one away. Only
// fields outside of lists: all entries of a list have one type.
func retype(rng *rand.Rand, n *node) {
	k := rng.IntN(len(n.kids))
	t := *n.t
	t.Fields = slices.Clone(t.Fields)
	n.t = &t
	f := &t.Fields[k]
	switch kid := n.kids[k]; rng.IntN(6) {
	case 0:
		t.Fields, n.kids = slices.Delete(t.Fields, k, k+1), slices.Delete(n.kids, k, k+1)
	case 1:
		f.Name += "s"
	case 2:
		t.Fields, n.kids = append(t.Fields, capi.Field{Name: "note", Type: capi.TVarchar}), append(n.kids, &node{t: capi.TVarchar, s: "mine"})
	default:
		if kid.t.ID == capi.Struct && rng.IntN(2) == 0 {
			retype(rng, kid)
		} else {
			to := []*capi.Type{capi.TDouble, capi.TBigInt, capi.TInteger, capi.TBoolean, capi.TVarchar}[rng.IntN(5)]
			was := kid.f + float64(kid.i)
			*kid = node{t: to, null: kid.null, f: was, s: kid.s}
			if math.Abs(was) < 1<<31 {
				kid.i = int64(was)
			}
			if to == capi.TBoolean {
				kid.i &= 1
			}
		}
		f.Type = kid.t
	}
}

// toFit is what the fields of a FIT say, the slow and plain way. Errors: what no FIT says.
func toFit(n *node) (*kernels.Fit, error) {
	f := &kernels.Fit{Shape: math.NaN(), Time: math.NaN(), Dispersion: 1}
	var err error
	fail := func(name string) { err = fmt.Errorf("field %s", name) }
	text := func(s *node, name string, needed bool) (v string) {
		k := s.field(name)
		if k == nil && !needed {
			return ""
		}
		if k == nil || k.null || k.t.ID != capi.Varchar {
			fail(name)
			return ""
		}
		return k.s
	}
	number := func(s *node, name string, def float64, needed, nullable bool) float64 {
		k := s.field(name)
		switch {
		case k == nil && !needed:
			return def
		case k != nil && k.null && nullable && (k.t.ID == capi.Double || k.t.ID == capi.BigInt || k.t.ID == capi.Integer || k.t.ID == capi.Varchar): // JSON has no type for NULL
			return math.NaN()
		case k == nil || k.null:
			fail(name)
			return def
		case k.t.ID == capi.Double:
			if math.IsNaN(k.f) {
				fail(name)
			}
			return k.f
		case k.t.ID == capi.BigInt || k.t.ID == capi.Integer:
			return float64(k.i)
		}
		fail(name)
		return def
	}
	whole := func(s *node, name string, nullable bool) int64 {
		v := number(s, name, 0, false, nullable)
		if nullable && math.IsNaN(v) {
			return 0
		}
		if v != math.Floor(v) || math.Abs(v) > 1<<53 {
			fail(name)
			return 0
		}
		return int64(v)
	}
	truth := func(name string, needed bool) bool {
		k := n.field(name)
		if k == nil && !needed {
			return true
		}
		if k == nil || k.null || k.t.ID != capi.Boolean {
			fail(name)
			return false
		}
		return k.i != 0
	}
	f.Method, f.Family, f.Link, f.Status = text(n, "method", false), text(n, "family", true), text(n, "link", true), text(n, "status", false)
	f.Shape, f.Dispersion = number(n, "shape", math.NaN(), false, true), number(n, "dispersion", 1, false, false)
	f.Time, f.LogEvidence = number(n, "time", math.NaN(), false, true), number(n, "log_evidence", 0, false, true)
	f.Intercept, f.Converged = truth("intercept", true), truth("converged", false)
	f.HashBits = int(whole(n, "hash_bits", true))
	f.N, f.Skipped, f.Iterations = whole(n, "n", false), whole(n, "n_skipped", false), int(whole(n, "iterations", false))
	p := n.field("prior")
	if p == nil || p.null || p.t.ID != capi.Struct {
		return nil, fmt.Errorf("field prior")
	}
	f.Prior = kernels.Prior{Mean: number(p, "mean", 0, true, false), Variance: number(p, "variance", 0, true, false), InterceptVariance: number(p, "intercept_variance", 0, true, false)}
	b := n.field("beliefs")
	if b == nil || b.null || b.t.ID != capi.List {
		return nil, fmt.Errorf("field beliefs")
	}
	sizes := map[string]int{}
	for _, e := range b.kids {
		if e.null {
			return nil, fmt.Errorf("a NULL belief")
		}
		f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: text(e, "feature", true), Weight: kernels.Weight{Mean: number(e, "mean", 0, true, false), Variance: number(e, "variance", 0, true, false)}})
		if e.field("class") != nil {
			c := text(e, "class", true)
			if len(f.Classes) == 0 || f.Classes[len(f.Classes)-1] != c {
				f.Classes = append(f.Classes, c)
			}
			sizes[c]++
		}
	}
	for _, k := range sizes {
		if k*len(sizes) != len(b.kids) {
			return nil, fmt.Errorf("classes of different sizes")
		}
	}
	if c := n.field("covariance"); c != nil {
		if c.null || c.t.ID != capi.Struct {
			return nil, fmt.Errorf("field covariance")
		}
		switch k := text(c, "kind", true); k {
		case "diagonal":
		case "full":
			f.Covariance.Form = gauss.Full
		case "lowrank":
			f.Covariance.Form = gauss.LowRank
		case "arrowhead":
			f.Covariance.Form = gauss.Arrowhead
		default:
			return nil, fmt.Errorf("kind %q", k)
		}
		number(c, "rank", 0, true, false)
		f.Covariance.Rank = int(whole(c, "rank", false))
		v := c.field("values")
		if v == nil || v.null || v.t.ID != capi.List {
			return nil, fmt.Errorf("field covariance.values")
		}
		for _, e := range v.kids {
			if e.null {
				return nil, fmt.Errorf("a NULL among the values")
			}
			f.Covariance.Values = append(f.Covariance.Values, e.f)
		}
	}
	return f, err
}

// valid says whether n may be answered from.
func valid(n *node) error {
	if n.null {
		return nil
	}
	if n.field("beliefs") == nil {
		return validProcess(n)
	}
	f, err := toFit(n)
	if err != nil {
		return err
	}
	if f.Covariance.Form == gauss.Arrowhead { // its numbers may have units, which the checker does not know
		f.Covariance = kernels.Covariance{}
	}
	return invariant.Check(f)
}

func validProcess(n *node) error {
	want := map[string]bool{"family": true, "link": true, "kernel": true, "lengthscale": true, "signal_variance": true, "mean": true, "x": true, "alpha": true, "root": true, "negative": true, "shape": true, "dispersion": true}
	for i, f := range n.t.Fields {
		k := n.kids[i]
		delete(want, f.Name)
		// Without a format a process is of the first layout, NULL or not there: see fitlayout.
		if field(gpType, f.Name) != nil && k.null && !slices.Contains([]string{"shape", "log_evidence", "center", "scale", "format"}, f.Name) {
			return fmt.Errorf("NULL in %s", f.Name)
		}
		if k.null { // whatever its entries were
			continue
		}
		for _, e := range k.leaves(nil)[1:] {
			if e.null || e.t.ID == capi.Double && !(math.Abs(e.f) <= math.MaxFloat64) {
				return fmt.Errorf("NULL or no number in %s", f.Name)
			}
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("missing %v", want)
	}
	val := func(name string) float64 {
		k := n.field(name)
		if k.t.ID == capi.Double {
			return k.f
		}
		return float64(k.i)
	}
	for _, name := range []string{"lengthscale", "signal_variance", "dispersion"} {
		if v := val(name); !(v > 0 && v <= math.MaxFloat64) {
			return fmt.Errorf("%s = %v", name, v)
		}
	}
	rows, neg := len(n.field("alpha").kids), val("negative")
	if len(n.field("x").kids) != rows || len(n.field("root").kids) != rows*(rows+1)/2 || neg < 0 || neg > float64(rows) || math.Abs(val("mean")) > math.MaxFloat64 || math.IsNaN(val("mean")) {
		return fmt.Errorf("lengths")
	}
	for _, r := range n.field("x").kids {
		if len(r.kids) != len(n.field("x").kids[0].kids) {
			return fmt.Errorf("rows of different lengths")
		}
	}
	units := 0
	for k, name := range []string{"center", "scale"} {
		var has []*node
		if l := n.field(name); l != nil && !l.null {
			has = l.kids
		}
		if k == 0 {
			units = len(has)
		}
		if len(has) != units || units > 0 && rows > 0 && units != len(n.field("x").kids[0].kids) || units > 0 && rows == 0 {
			return fmt.Errorf("%d numbers in %s", len(has), name)
		}
		for _, v := range has {
			if k == 1 && !(v.f > 0) {
				return fmt.Errorf("a scale of %v", v.f)
			}
		}
	}
	if s := n.field("shape"); !s.null && !(val("shape") > 0 && val("shape") <= math.MaxFloat64) {
		return fmt.Errorf("shape")
	}
	for _, name := range []string{"n", "n_skipped", "iterations"} {
		if k := n.field(name); k != nil && (val(name) < 0 || val(name) > 1<<53) {
			return fmt.Errorf("%s", name)
		}
	}
	return nil
}

// call is a function with its other arguments.
type call struct {
	name   string
	result *capi.Type
	first  *capi.Type // nil = any
	f      func(fit *capi.Vec, out *capi.Col) error
	sql    string // with %s for the FIT
}

func vectorOf(n *node) (capi.Vec, *capi.Col) {
	c := capi.NewCol(n.t)
	n.write(c)
	return c.View(), c
}

// calls are all scalars that take a FIT. The columns of their arguments are returned to
// be kept.
func calls() (out []call, keep []*capi.Col) {
	arg := func(n *node) capi.Vec {
		v, c := vectorOf(n)
		keep = append(keep, c)
		return v
	}
	pair := capi.StructOf(fld("feature", capi.TVarchar), fld("value", capi.TDouble))
	one := func(name string, v float64) *node {
		return &node{t: pair, kids: []*node{{t: capi.TVarchar, s: name}, {t: capi.TDouble, f: v}}}
	}
	x := &node{t: capi.ListOf(pair), kids: []*node{one("a", 0.5), one("s=k1", 1), one("1", -0.25), one("10", 2), one("b", 1.5), one("never seen", 1)}}
	xs := arg(x)
	point := arg(&node{t: capi.ListOf(capi.TDouble), kids: []*node{{t: capi.TDouble, f: 0.25}}})
	point2 := arg(&node{t: capi.ListOf(capi.TDouble), kids: []*node{{t: capi.TDouble, f: 0.25}, {t: capi.TDouble, f: -0.5}}})
	seven := arg(&node{t: capi.TBigInt, i: 7})
	y := arg(&node{t: capi.TDouble, f: 1})
	rowType := capi.StructOf(fld("y", capi.TDouble), fld("x", x.t))
	rows := arg(&node{t: capi.ListOf(rowType), kids: []*node{{t: rowType, kids: []*node{{t: capi.TDouble, f: 1}, x}}, {t: rowType, kids: []*node{{t: capi.TDouble, f: 0}, x}}}})
	add := func(name string, result, first *capi.Type, f func([]capi.Vec, int, *capi.Col) error, sql string, args func(fit capi.Vec) []capi.Vec) {
		out = append(out, call{name, result, first, func(fit *capi.Vec, out *capi.Col) error { return f(args(*fit), 1, out) }, sql})
	}
	with := func(more ...capi.Vec) func(capi.Vec) []capi.Vec {
		return func(fit capi.Vec) []capi.Vec { return append([]capi.Vec{fit}, more...) }
	}
	lx := x.sql()
	add("predict", capi.TDouble, nil, callPredict, "bglm_predict(%s, "+lx+")", with(xs))
	add("predict_dist", distType, nil, callPredictDist, "bglm_predict_dist(%s, "+lx+")", with(xs))
	add("sample", capi.TDouble, nil, callSample, "bglm_sample(%s, "+lx+", 7, 7)", with(xs, seven, seven))
	add("loo_predict", looPredictType, nil, callLOOPredict, "bglm_loo_predict(%s, 1.0, "+lx+")", with(y, xs))
	add("influence", influenceType, nil, callInfluence, "bglm_influence(%s, 1.0, "+lx+")", with(y, xs))
	add("update", fitType, nil, callUpdate, "bglm_update(%s, [{y: 1.0, x: "+lx+"}, {y: 0.0, x: "+lx+"}])", with(rows))
	add("beliefs", beliefsType, nil, callBeliefs, "bglm_beliefs(%s)", with())
	add("predict softmax", classProbs, classesType, callPredictClasses, "bglm_predict(%s, "+lx+")", with(xs))
	add("beliefs softmax", capi.ListOf(classBelief), classesType, callBeliefsClasses, "", with())
	for _, c := range []struct {
		name string
		f    func([]capi.Vec, int, *capi.Col) error
		args func(fit capi.Vec) []capi.Vec
	}{{"sql softmax", callSQL, with(arg(&node{t: capi.TVarchar, s: "duckdb"}))}, {"pmml softmax", callPMML, with()}} {
		add(c.name, capi.TVarchar, classesType, c.f, "", c.args)
	}
	add("predict gp", capi.TDouble, nil, callPredict, "bglm_predict(%s, [0.25])", with(point))
	add("predict_dist gp", distType, nil, callPredictDist, "bglm_predict_dist(%s, [0.25, -0.5])", with(point2))
	text := func(s string) capi.Vec { return arg(&node{t: capi.TVarchar, s: s}) }
	add("summary", summaryType, nil, callSummary, "", with())
	add("contrast", contrastType, nil, callContrast, "bglm_contrast(%s, "+lx+", [{feature: 'b', value: 1.0}])", with(xs, arg(&node{t: x.t, kids: []*node{one("b", 1)}})))
	add("pit", pitType, nil, callPIT, "bglm_pit(%s, 1.0, "+lx+")", with(y, xs))
	add("loo_predict", looPredictType, nil, callLOOPredict, "bglm_loo_predict(%s, 1.0, "+lx+")", with(y, xs))
	named := capi.StructOf(fld("a", capi.TDouble), fld("s", capi.TVarchar))
	row := &node{t: named, kids: []*node{{t: capi.TDouble, f: 0.5}, {t: capi.TVarchar, s: "k1"}}}
	add("pairs", pairsOfLevels, nil, callPairs, "bglm_pairs(%s, {a: 0.5::DOUBLE, s: 'k1'}, 's')", with(arg(row), text("s")))
	add("sql", capi.TVarchar, nil, callSQL, "bglm_sql(%s, 'sqlite')", with(text("sqlite")))
	add("pmml", capi.TVarchar, nil, callPMML, "bglm_pmml(%s)", with())
	return out, keep
}

// outcome runs c on n: a panic is an error that says so.
func (c *call) outcome(n *node) (out *capi.Col, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %v", r)
			if buf := make([]byte, 4000); true {
				err = fmt.Errorf("%w\n%s", err, buf[:runtime.Stack(buf, false)])
			}
		}
	}()
	v, col := vectorOf(n)
	out = capi.NewCol(c.result)
	err = c.f(&v, out)
	runtime.KeepAlive(col)
	return out, err
}

// wrongAnswer says what is wrong with an answer: NaN, or a FIT that is none.
func wrongAnswer(c *call, out *capi.Col) error {
	v := out.View()
	defer runtime.KeepAlive(out)
	if v.Len != 1 {
		return fmt.Errorf("%d answers", v.Len)
	}
	n := nodeAt(&v, 0, c.result)
	if n.null {
		return nil
	}
	if c.result == fitType {
		return valid(n)
	}
	for _, e := range n.leaves(nil) {
		if e.t.ID == capi.Double && !e.null && math.IsNaN(e.f) {
			return fmt.Errorf("NaN in the answer")
		}
	}
	return nil
}

func nodeAt(v *capi.Vec, i int, t *capi.Type) *node {
	n := &node{t: t, null: v.Null(i)}
	if n.null {
		return n
	}
	switch t.ID {
	case capi.Double:
		n.f = v.Float(i)
	case capi.BigInt, capi.Integer, capi.Boolean:
		n.i = int64(v.Float(i))
	case capi.Varchar:
		n.s = strings.Clone(v.Str(i))
	case capi.List, capi.Map:
		for k, hi := v.Span(i); k < hi; k++ {
			n.kids = append(n.kids, nodeAt(&v.Kids[0], k, t.Elem))
		}
	case capi.Struct:
		for k, f := range t.Fields {
			n.kids = append(n.kids, nodeAt(&v.Kids[k], i, f.Type))
		}
	}
	return n
}

// FITs of every kind with one to three things changed, through every scalar that takes
// one: no panic, no answer that is not a number, no FIT that is none, and no answer at
// all where the slow checker finds an invariant broken.
func TestCraftedFits(t *testing.T) {
	c := craftedDB(t)
	real := readReal(t, c)
	picked, keep := calls()
	defer runtime.KeepAlive(keep)
	for k, n := range real {
		if err := valid(n); err != nil {
			t.Fatalf("%s: the checker refuses it: %v", realFits[k].name, err)
		}
		some := false
		for _, f := range picked {
			if f.first == nil || n.t == f.first {
				_, err := f.outcome(n)
				some = some || err == nil
			}
		}
		if !some {
			t.Fatalf("%s: no function takes it", realFits[k].name)
		}
	}
	rng := rand.New(rand.NewPCG(*craftedSeed, 9))
	count := *craftedN
	if testing.Short() {
		count = min(count, 800)
	}
	var answers, broken int
	for round := range count {
		k := rng.IntN(len(real))
		n := real[k].clone()
		for range 1 + rng.IntN(3)*rng.IntN(2) {
			mutate(rng, n)
		}
		bad := valid(n)
		if bad != nil {
			broken++
		}
		for _, f := range picked {
			if f.first != nil && n.t != f.first {
				continue
			}
			out, err := f.outcome(n)
			if err != nil {
				if strings.Contains(err.Error(), "internal error") || strings.Contains(err.Error(), "runtime error") {
					t.Fatalf("round %d, %s, %s: %v\n%s", round, realFits[k].name, f.name, err, n.sql())
				}
				continue
			}
			answers++
			if bad != nil {
				t.Fatalf("round %d, %s: %s answers although: %v\n%s", round, realFits[k].name, f.name, bad, n.sql())
			}
			if err := wrongAnswer(&f, out); err != nil {
				t.Fatalf("round %d, %s: the answer of %s: %v\n%s", round, realFits[k].name, f.name, err, n.sql())
			}
		}
	}
	t.Logf("%d crafted FITs, %d broken, %d answers", count, broken, answers)
	if broken == 0 || answers == 0 || broken == count {
		t.Error("one-sided")
	}
}

// The same through SQL, with DuckDB's own choice of the overload, and through bglm_merge
// and the option prior.
func TestCraftedFitsSQL(t *testing.T) {
	c := craftedDB(t)
	real := readReal(t, c)
	picked, _ := calls()
	forms := []string{"bglm_loo(%s, 1.0, {a: 1.0})", "bglm_loo_auc(%s, 1.0, {a: 1.0})", "bglm_loo_compare({a: %[1]s, b: %[1]s}, 1.0, {a: 1.0})", "bglm_effects(%s, {a: 1.0, s: 'k1'}, '*')", "bglm_robust(%s, 1.0, {a: 1.0, s: 'k1'})",
		"bglm_ppc(%s, 1.0, {a: 1.0}, 'mean', {draws: 9})", "bglm_drivers(%s, {a: 1.0, s: 'k1'})", "bglm_newton_state(1.0, {a: 1.0}, {around: %s})", "bglm_newton_state(1.0, {a: 1.0}, {around: %s, method: 'ep'})", "bglm_merge(%s)", "bglm_merge(%[1]s, %[1]s)", "bglm_adf(true, {a: 1.0}, {prior: %s})", "bglm_softmax('k1', {a: 1.0, b: 2.0}, {prior: %s})", "bglm_summary(%s)"}
	for _, f := range picked {
		if f.sql != "" {
			forms = append(forms, f.sql)
		}
	}
	known := map[string]bool{}
	for _, f := range Functions() {
		known[f.Name] = true
	}
	forms = slices.DeleteFunc(forms, func(s string) bool { return !known[s[:strings.IndexByte(s, '(')]] })
	rng := rand.New(rand.NewPCG(*craftedSeed, 10))
	count := *craftedSQL
	if testing.Short() {
		count = min(count, 30)
	}
	var answers int
	for round := range count {
		k := rng.IntN(len(real))
		n := real[k].clone()
		for range 1 + rng.IntN(2) {
			mutate(rng, n)
		}
		bad := valid(n)
		for _, form := range forms {
			q := "SELECT " + fmt.Sprintf(form, "f") + " FROM (SELECT " + n.sql() + " AS f)"
			var v any
			err := c.QueryRowContext(context.Background(), q).Scan(&v)
			switch {
			case err != nil && (strings.Contains(err.Error(), "internal error") || strings.Contains(err.Error(), "runtime error") || strings.Contains(err.Error(), "INTERNAL")):
				t.Fatalf("round %d, %s: %v\n%s", round, realFits[k].name, err, q)
			case err == nil && v != nil:
				if answers++; bad != nil {
					t.Fatalf("round %d, %s: answers although: %v\n%s", round, realFits[k].name, bad, q)
				}
			}
		}
	}
	t.Logf("%d crafted FITs, %d answers", count, answers)
}

package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// Fit creates the table fits from the rows of src. Groups of the table prior are continued; ""
// starts afresh. Those whose rows on_error=null leaves without a fit keep that of prior, and are Kept.
//
// Ordered rows are sorted first and absorbed by one thread: ORDER BY inside an aggregate would
// carry the options, and with them a prior, along with every row. Without an order a streaming
// method absorbs the rows in file order, also on one thread, unless parallel is set.
func (j *Job) Fit(src *Source, prior string, parallel bool) error {
	s := j.s
	fn, err := Function(s, j.Method)
	if err != nil {
		return err
	}
	if j.Order != "" || Streams(j.Method) && !parallel {
		var threads string
		if err := s.Row("SELECT current_setting('threads')::VARCHAR", &threads); err != nil {
			return err
		}
		if err := s.Exec("SET threads = 1"); err != nil {
			return err
		}
		defer func() { _ = s.Exec("SET threads = " + threads) }()
	}
	var more []Setting
	from := "(" + j.Inner(src.Rows()) + ") q"
	keys := quote.Names(j.GroupNames())
	switch {
	case prior != "" && keys == "":
		more = append(more, Setting{Key: "prior", SQL: "(SELECT fit FROM " + prior + ")"})
	case prior != "":
		// The rows must stay on the probe side of the join, which keeps their order.
		if err := s.Exec("SET disabled_optimizers = 'join_order,build_side_probe_side'"); err != nil {
			return err
		}
		defer func() { _ = s.Exec("RESET disabled_optimizers") }()
		from += " LEFT JOIN " + prior + " p ON " + Matching(j.GroupNames(), "q", "p")
		more = append(more, Setting{Key: "prior", SQL: "p.fit"})
		keys = quote.NamesOf("q", j.GroupNames())
	}
	q := "CREATE OR REPLACE TEMP TABLE fits AS SELECT "
	if keys != "" {
		q += keys + ", "
	}
	own := *j
	if j.Resumes && prior != "" {
		own.Options = resumed(j.Options, len(j.Group) > 0)
	}
	q += fn + "(bglm_y, bglm_x, " + own.OptionsText(more...) + ") AS fit FROM " + from
	if keys != "" {
		q += " GROUP BY ALL"
	}
	if err := s.Long("fitting", q); err != nil {
		return j.locate(src, err)
	}
	if prior == "" || len(j.Group) == 0 {
		return nil
	}
	lost := Matching(j.GroupNames(), "p", "fits") + " AND fits.fit IS NULL AND p.fit IS NOT NULL"
	if j.Kept, err = s.Texts("SELECT " + NameOfGroup("p", j.GroupNames()) + " FROM fits JOIN " + prior + " p ON " + lost + " ORDER BY 1"); err != nil {
		return err
	}
	if len(j.Kept) > 0 {
		if err := s.Exec("UPDATE fits SET fit = p.fit FROM " + prior + " p WHERE " + lost); err != nil {
			return err
		}
	}
	// Groups without new rows keep their fits.
	return s.Exec("INSERT INTO fits SELECT * FROM " + prior + " p ANTI JOIN fits f ON " + Matching(j.GroupNames(), "p", "f"))
}

// NameOfGroup is an expression for the values of the group columns of a relation, as text.
func NameOfGroup(of string, group []string) string {
	var names []string
	for _, g := range group {
		names = append(names, "coalesce("+of+"."+quote.Name(g)+"::VARCHAR, 'NULL')")
	}
	return "concat_ws(', ', " + strings.Join(names, ", ") + ")"
}

// resumed are the options of a job that goes on from its own fits. These have the numbers of the
// default prior, in the unit of their responses: given again, they would be in that of y. Groups
// that are new still need them.
func resumed(opts []Setting, grouped bool) []Setting {
	var out []Setting
	for _, o := range opts {
		if slices.Contains([]string{"prior_mean", "prior_variance", "intercept_variance"}, o.Key) {
			if _, err := strconv.ParseFloat(strings.TrimSpace(o.SQL), 64); err == nil {
				if !grouped {
					continue
				}
				o.SQL = "CASE WHEN p.fit IS NULL THEN " + o.SQL + " END"
			}
		}
		out = append(out, o)
	}
	return out
}

// Matching is the condition that two relations agree in their groups.
func Matching(group []string, a, b string) string {
	var on []string
	for _, g := range group {
		on = append(on, a+"."+quote.Name(g)+" IS NOT DISTINCT FROM "+b+"."+quote.Name(g))
	}
	return strings.Join(on, " AND ")
}

// Function is the SQL aggregate of the method.
func Function(s *duck.Session, method string) (string, error) {
	all, err := s.Texts("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name LIKE 'bglm\\_%' ESCAPE '\\' AND function_type = 'aggregate' ORDER BY 1")
	if err != nil {
		return "", err
	}
	name := "bglm_" + method
	if method == engine.Auto {
		name = "bglm_fit"
	}
	if known := MethodNames(); !slices.Contains(known, method) || !slices.Contains(all, name) {
		err := fmt.Errorf("--method %s: allowed: %s", method, strings.Join(known, ", "))
		if n := option.Nearest(method, known); n != "" {
			err = fmt.Errorf("%w; the nearest is %s", err, n)
		}
		return "", cli.Usage(err)
	}
	return name, nil
}

// Streams reports whether a method may absorb rows in their order.
func Streams(method string) bool {
	m, err := engine.Find(method)
	return err == nil && (m.Streams || m.Name == engine.Auto)
}

package export

import (
	"fmt"
	"strconv"
	"strings"
)

// numbered are the numbered states of the model, and the places of those of each column.
type numbered struct {
	all    []*state
	first  []int // by column: its first level, or the unit of a number
	nulls  []int
	others []int
	ties   []int
}

func (m *model) numbered() *numbered {
	n := &numbered{}
	add := func(s *state) int {
		n.all = append(n.all, s)
		return len(n.all) - 1
	}
	if m.intercept != nil {
		add(m.intercept)
	}
	for k := range m.columns {
		c := &m.columns[k]
		n.first = append(n.first, len(n.all))
		if c.number {
			add(&c.unit)
		}
		for j := range c.levels {
			add(&c.levels[j])
		}
		n.nulls = append(n.nulls, add(&c.null))
		n.others = append(n.others, add(&c.other))
	}
	for k := range m.ties {
		n.ties = append(n.ties, add(&m.ties[k].state))
	}
	return n
}

// tables are the numbered rows and their state names.
func (w *writer) tables(n *numbered) []string {
	id := strconv.Itoa
	var names [][]string
	for k, c := range w.m.columns {
		for j := range c.levels {
			names = append(names, []string{id(k), w.string(c.levels[j].level), id(n.first[k] + j)})
		}
	}
	with := []string{fmt.Sprintf("bglm_rows AS (SELECT row_number() OVER (ORDER BY 1) AS bglm_k, bglm_0.* FROM (SELECT %s%s FROM %s AS bglm_t) AS bglm_0)", w.keep("bglm_t."), w.cells(), w.table())}
	if len(names) > 0 {
		with = append(with, w.values("bglm_names", []string{"c", "level", "id"}, names))
	}
	return with
}

// join writes the states as tables of values: rows are numbered, split into states, joined with the
// values of these, and summed.
func (w *writer) join() string {
	n := w.m.numbered()
	id := strconv.Itoa
	var values, factors [][]string
	for k, s := range n.all {
		values = append(values, []string{id(k), w.number(s.mean), w.number(s.variance)})
		for j, r := range s.r {
			if r != 0 {
				factors = append(factors, []string{id(k), id(j), w.number(r)})
			}
		}
	}
	with, variance := w.sums(n, "", values, factors)
	from := "bglm_rows AS r JOIN bglm_sums AS s ON s.bglm_k = r.bglm_k"
	if len(factors) > 0 {
		from += " LEFT JOIN bglm_squares AS q ON q.bglm_k = r.bglm_k"
	}
	return "WITH " + strings.Join(with, ",\n  ") + "\n" +
		w.scored(fmt.Sprintf("SELECT %ss.m AS bglm_m, %s AS bglm_v\n    FROM %s", w.keep("r."), variance, from))
}

// sums are the tables bglm_sums, what the states of a row contribute, and bglm_squares, the part of
// its variance due to factors, if there are any; by is "" or the second column of values and
// factors, which distinguishes them. variance is that of a row, from both tables as s and q.
func (w *writer) sums(n *numbered, by string, values, factors [][]string) (with []string, variance string) {
	columns := func(more ...string) []string {
		if by == "" {
			return append([]string{"id"}, more...)
		}
		return append([]string{"id", by}, more...)
	}
	of := func(table string) (listed, grouped string) {
		if by == "" {
			return "", ""
		}
		return table + by + ", ", ", " + table + by
	}
	with = append(w.tables(n), w.values("bglm_values", columns("mean", "own"), values))
	if len(factors) > 0 {
		with = append(with, w.values("bglm_factors", columns("j", "r"), factors))
	}
	listed, grouped := of("v.")
	with = append(with, "bglm_states AS (\n    "+strings.Join(w.states(n), "\n    UNION ALL ")+")",
		"bglm_sums AS (SELECT s.bglm_k, "+listed+"sum(s.x * v.mean) AS m, sum(s.x * s.x * v.own) AS own FROM bglm_states AS s JOIN bglm_values AS v ON v.id = s.id GROUP BY s.bglm_k"+grouped+")")
	if len(factors) == 0 {
		return with, "s.own"
	}
	listed, grouped = of("f.")
	outer, outerGrouped := of("")
	with = append(with, "bglm_squares AS (SELECT bglm_k, "+outer+"sum(u * u) AS q FROM (SELECT s.bglm_k, "+listed+"f.j, sum(s.x * f.r) AS u FROM bglm_states AS s JOIN bglm_factors AS f ON f.id = s.id GROUP BY s.bglm_k"+grouped+", f.j) AS bglm_3 GROUP BY bglm_k"+outerGrouped+")")
	q := "coalesce(q.q, " + w.number(0) + ")"
	if w.m.sign < 0 {
		return with, w.most + "(s.own - " + q + ", " + w.number(0) + ")"
	}
	return with, "s.own + " + q
}

// states are queries for the states whose sums the rows are, with columns bglm_k, id and x.
func (w *writer) states(n *numbered) []string {
	one := w.number(1)
	var out []string
	if w.m.intercept != nil {
		out = append(out, "SELECT bglm_k, 0 AS id, "+one+" AS x FROM bglm_rows")
	}
	for k, c := range w.m.columns {
		x := cell(k)
		if c.number {
			out = append(out, fmt.Sprintf("SELECT bglm_k, %d AS id, %s AS x FROM bglm_rows", n.first[k], w.stands(&c, x)))
		} else if len(c.levels) > 0 {
			out = append(out, fmt.Sprintf("SELECT r.bglm_k, coalesce(n.id, %d) AS id, %s AS x FROM bglm_rows AS r LEFT JOIN bglm_names AS n ON n.c = %d AND n.level = r.%s WHERE r.%s IS NOT NULL", n.others[k], one, k, x, x))
		} else {
			out = append(out, fmt.Sprintf("SELECT bglm_k, %d AS id, %s AS x FROM bglm_rows WHERE %s IS NOT NULL", n.others[k], one, x))
		}
		out = append(out, fmt.Sprintf("SELECT bglm_k, %d AS id, %s AS x FROM bglm_rows WHERE %s IS NULL", n.nulls[k], one, x))
	}
	for k, t := range w.m.ties {
		from, where := "bglm_rows AS r", fmt.Sprintf("r.%s = r.%s", cell(t.a), cell(t.b))
		for j, c := range [2]int{t.a, t.b} {
			if len(w.m.columns[c].levels) > 0 {
				names := fmt.Sprintf("n%d", j)
				from += fmt.Sprintf(" LEFT JOIN bglm_names AS %s ON %s.c = %d AND %s.level = r.%s", names, names, c, names, cell(c))
				where += " AND " + names + ".id IS NULL"
			}
		}
		out = append(out, fmt.Sprintf("SELECT r.bglm_k, %d AS id, %s AS x FROM %s WHERE %s", n.ties[k], one, from, where))
		if t.null {
			out = append(out, fmt.Sprintf("SELECT bglm_k, %d AS id, %s AS x FROM bglm_rows WHERE %s IS NULL AND %s IS NULL", n.ties[k], one, cell(t.a), cell(t.b)))
		}
	}
	return out
}

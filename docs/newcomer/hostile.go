package main

import (
	"fmt"
	"slices"
	"strings"
)

// hostileColumns are what a table may have besides two numbers and a column of levels that
// matter, or in their place.
var hostileColumns = []struct{ name, x string }{
	{"none", "u: u, v: v, g: g"},
	{"an id, 1 to 4,000", "u: u, v: v, g: g, id: i + 1"},
	{"an id of ten digits", "u: u, v: v, g: g, id: 7000000000 + i"},
	{"an id as text", "u: u, v: v, g: g, id: 'k' || i"},
	{"a constant", "u: u, v: v, g: g, one: 5.0"},
	{"a constant level", "u: u, v: v, g: g, one: 'all'"},
	{"u twice", "u: u, again: u, v: v, g: g"},
	{"g twice", "u: u, v: v, g: g, again: g"},
	{"all NULL, numeric", "u: u, v: v, g: g, gone: NULL::DOUBLE"},
	{"all NULL, text", "u: u, v: v, g: g, gone: NULL::VARCHAR"},
	{"NULL except in five rows", "u: u, v: v, g: g, gone: CASE WHEN i % 800 = 0 THEN 3.0 END"},
	{"u times 1e12", "u: u * 1e12, v: v, g: g"},
	{"u times 1e-12", "u: u * 1e-12, v: v, g: g"},
	{"u plus 1e9", "u: u + 1e9, v: v, g: g"},
	{"u as a time in seconds", "u: epoch(TIMESTAMP '2024-05-01' + INTERVAL (u * 20) DAY), v: v, g: g"},
	{"a TIMESTAMP for each row", "u: u, v: v, g: g, moment: TIMESTAMP '2024-05-01' + INTERVAL (i) MINUTE"},
	{"a DATE of 1,000 days", "u: u, v: v, g: g, day: DATE '2021-05-01' + (i % 1000)::INT"},
	{"10,000 levels", "u: u, v: v, g: g, level: 'k' || hash(i) % 10000"},
	{"one value of 1e15 in u", "u: CASE WHEN i = 17 THEN 1e15 ELSE u END, v: v, g: g"},
	{"u NULL in a tenth of the rows", "u: CASE WHEN i % 10 = 3 THEN NULL ELSE u END, v: v, g: g"},
	{"u in cents, v in thousandths", "u: (100 * (52000 + 21000 * u))::BIGINT, v: v / 1000, g: g"},
}

// hostileCalls are the methods that read them; %s is x.
var hostileCalls = []struct{ name, call string }{
	{"fit", "bglm_fit(y, {%s})"},
	{"adf", "bglm_adf(y, {%s} ORDER BY i)"},
	{"laplace", "bglm_laplace(y, {%s})"},
	{"ep", "bglm_ep(y, {%s})"},
	{"lowrank", "bglm_lowrank(y, {%s})"},
	{"sequential_laplace", "bglm_sequential_laplace(y, {%s} ORDER BY i)"},
	{"variational", "bglm_variational(y, {%s} ORDER BY i)"},
	{"ekf", "bglm_ekf(y, {%s} ORDER BY i)"},
	{"adf, factorised", "bglm_adf(y, {%s}, {covariance: 'diagonal'} ORDER BY i)"},
}

var hostile = Part{
	Name: "hostile", Title: "Hostile columns",
	Text: "The rows are simulated from a logistic model of two numbers (u, v) and a column of levels (g), and have one awkward column, as real tables do. Each method is fitted\n" +
		"to the first half of the rows without options (the last one with a factorised posterior) and predicts the second half.\n\n" +
		"A number is the log loss. It is *right* by the definition above unless the cell says *warned* (not right, and the status says why) or *error*. Numbers in brackets\n" +
		"refer to the messages below the table.",
	Run: func(c *Context) (*Table, error) {
		t := &Table{Head: []string{"added or changed column"}}
		s, err := open()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		calls := hostileCalls
		if c.Quick {
			calls = calls[:2]
		}
		if err := s.world(11, "bernoulli", 4000, 10); err != nil {
			return nil, err
		}
		for _, m := range calls {
			t.Head = append(t.Head, m.name)
		}
		var remarks []string
		var base, truth float64
		for _, h := range hostileColumns {
			row := []string{h.name}
			for _, m := range calls {
				started := processorTime()
				o := s.attempt("bernoulli", fmt.Sprintf(m.call, h.x), "bglm_predict(fit, {"+h.x+"})")
				cell := number(o.loss)
				if o.err == nil {
					base, truth = o.base, o.truth
				}
				if remark := o.remark(); remark != "ok" {
					at := slices.Index(remarks, remark)
					if at < 0 {
						at, remarks = len(remarks), append(remarks, remark)
					}
					cell += fmt.Sprintf(" (%d)", at+1)
				}
				if v := o.verdict(); v != right {
					cell = v + " " + strings.TrimPrefix(cell, "- ")
				}
				row = append(row, cell)
				fmt.Fprintf(c.Log, "%s, %s: %s %s (%.1f s)\n", h.name, m.name, cell, o.remark(), (processorTime() - started).Seconds())
				if o.verdict() == wrongWord {
					t.miss(h.name+", "+m.name, "log loss %s, base rate %s, truth %s, and status is ok", number(o.loss), number(o.base), number(o.truth))
				}
			}
			t.add(row...)
		}
		note := fmt.Sprintf("Base rate %s, truth %s.", number(base), number(truth))
		for k, r := range remarks {
			note += fmt.Sprintf("\n(%d) %s", k+1, r)
		}
		t.Notes = append(t.Notes, strings.ReplaceAll(note, "\n", "  \n"))
		return t, nil
	},
}

package export

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/predict"
)

// classModels lays out a fit with classes, one model per class, with the same columns and states.
func classModels(f *kernels.Fit) ([]*model, error) {
	p := len(f.Beliefs) / len(f.Classes)
	if p*len(f.Classes) != len(f.Beliefs) {
		return nil, fmt.Errorf("%d beliefs for %d classes; allowed: as many for each", len(f.Beliefs), len(f.Classes))
	}
	if err := f.Covariance.Check(len(f.Beliefs)); err != nil {
		return nil, err
	}
	f = f.ForPrediction()
	var out []*model
	for k, name := range f.Classes {
		if err := checkText("class", name); err != nil {
			return nil, err
		}
		one := *f
		one.Classes, one.Beliefs = nil, f.Beliefs[k*p:(k+1)*p]
		pinned := p > 0
		for j, b := range one.Beliefs {
			if b.Feature != f.Beliefs[j].Feature {
				return nil, fmt.Errorf("belief %d of class %q is about feature %q, of class %q about %q; allowed: the same", j+1, name, b.Feature, f.Classes[0], f.Beliefs[j].Feature)
			}
			pinned = pinned && b.Weight == kernels.Weight{}
		}
		m, err := layModel(&one, k*p, pinned)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// classWriter writes the query for a model with classes.
type classWriter struct {
	*writer
	classes []*model
	names   []string
}

// probabilities names the class probabilities, normalising the weights bglm_e0, bglm_e1, ...
func (w *classWriter) probabilities() string {
	var total, out []string
	for k := range w.names {
		total = append(total, "bglm_e"+strconv.Itoa(k))
	}
	for k, name := range w.names {
		out = append(out, fmt.Sprintf("bglm_e%d / (%s) AS %s", k, strings.Join(total, " + "), w.ident("prediction_"+name)))
	}
	return strings.Join(out, ",\n  ")
}

// largest is the largest of some expressions; databases limit the arguments of one call.
func (w *classWriter) largest(x []string) string {
	const most = 50
	if len(x) == 1 {
		return x[0]
	}
	if len(x) <= most {
		return w.most + "(" + strings.Join(x, ", ") + ")"
	}
	return w.most + "(" + w.largest(x[:most]) + ", " + w.largest(x[most:]) + ")"
}

// predictor is a class's predictor, moderated unless the prediction is 'plugin'.
func (w *classWriter) predictor(mean, variance string) string {
	if w.o.Prediction == predict.Plugin {
		return mean
	}
	return mean + " / sqrt(" + w.number(1) + " + " + w.number(math.Pi/8) + " * (" + variance + "))"
}

// query writes the predictors as expressions.
func (w *classWriter) query() string {
	var predictors, all, weights []string
	for k, m := range w.classes {
		one := *w.writer
		one.m = m
		mean, variance := one.moments(w.o.Prediction != predict.Plugin)
		predictors = append(predictors, fmt.Sprintf("%s AS bglm_f%d", w.predictor("("+mean+")", variance), k))
		all = append(all, fmt.Sprintf("bglm_f%d", k))
		weights = append(weights, w.exp(fmt.Sprintf("bglm_f%d - bglm_t", k))+fmt.Sprintf(" AS bglm_e%d", k))
	}
	inner := fmt.Sprintf("SELECT %s%s FROM %s AS bglm_t", w.keep("bglm_t."), w.cells(), w.table())
	if len(w.m.columns) == 0 {
		inner = fmt.Sprintf("SELECT %s1 AS bglm_x0 FROM %s AS bglm_t", w.keep("bglm_t."), w.table())
	}
	return fmt.Sprintf("SELECT %s%s\nFROM (SELECT %s%s\n  FROM (SELECT %s%s, %s AS bglm_t\n    FROM (SELECT %s%s\n      FROM (%s) AS bglm_0\n    ) AS bglm_1\n  ) AS bglm_2\n) AS bglm_3",
		w.keep(""), w.probabilities(), w.keep(""), strings.Join(weights, ",\n    "), w.keep(""), strings.Join(all, ", "), w.largest(all), w.keep(""), strings.Join(predictors, ",\n      "), inner)
}

// join writes the states as tables of values, like writer.join, by class.
func (w *classWriter) join() string {
	n := w.m.numbered()
	id := strconv.Itoa
	var values, factors [][]string
	for c, m := range w.classes {
		for k, s := range m.numbered().all {
			values = append(values, []string{id(k), id(c), w.number(s.mean), w.number(s.variance)})
			for j, r := range s.r {
				if r != 0 && w.o.Prediction != predict.Plugin {
					factors = append(factors, []string{id(k), id(c), id(j), w.number(r)})
				}
			}
		}
	}
	with, variance := w.sums(n, "c", values, factors)
	from := "bglm_sums AS s"
	if len(factors) > 0 {
		from += " LEFT JOIN bglm_squares AS q ON q.bglm_k = s.bglm_k AND q.c = s.c"
	}
	with = append(with, fmt.Sprintf("bglm_predictors AS (SELECT s.bglm_k, s.c, %s AS f FROM %s)", w.predictor("s.m", variance), from),
		"bglm_tops AS (SELECT bglm_k, max(f) AS t FROM bglm_predictors GROUP BY bglm_k)")
	var weights []string
	for k := range w.names {
		weights = append(weights, fmt.Sprintf("sum(CASE WHEN p.c = %d THEN %s ELSE %s END) AS bglm_e%d", k, w.exp("p.f - t.t"), w.number(0), k))
	}
	with = append(with, "bglm_weights AS (SELECT p.bglm_k, "+strings.Join(weights, ",\n    ")+" FROM bglm_predictors AS p JOIN bglm_tops AS t ON t.bglm_k = p.bglm_k GROUP BY p.bglm_k)")
	return "WITH " + strings.Join(with, ",\n  ") + fmt.Sprintf("\nSELECT %s%s\nFROM bglm_rows AS r JOIN bglm_weights AS w ON w.bglm_k = r.bglm_k", w.keep("r."), w.probabilities())
}

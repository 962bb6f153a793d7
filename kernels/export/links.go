package export

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/lik"
)

// link is how a link is expressed in the languages of exported scores.
type link struct {
	pmml    string                              // PMML's normalizationMethod
	inverse func(w *writer, x string) string    // of a column
	mean    func(w *writer) string              // the expected response, from bglm_m, bglm_v, bglm_s and bglm_a; nil: a sum over Nodes
	mackay  func(w *writer) string              // MacKay's approximation of it; nil: mean
	at      func(w *writer, m, v string) string // bglm_a, nil: m
}

// links are those that can be written. Another likelihood with one of these needs nothing here; a
// link that is missing is rejected.
var links = map[string]link{
	"identity": {
		pmml:    "none",
		inverse: func(_ *writer, x string) string { return x },
		mean:    func(*writer) string { return "bglm_m" },
	},
	"log": {
		pmml:    "exp",
		inverse: func(w *writer, x string) string { return w.exp(x) },
		mean: func(w *writer) string { // clamped as in predict.Expected
			return "CASE WHEN bglm_v > " + w.number(16) + " THEN " + w.exp("bglm_m + "+w.number(2)+" * bglm_s") + " ELSE " + w.exp("bglm_m + "+w.number(0.5)+" * bglm_v") + " END"
		},
	},
	"probit": {
		pmml:    "probit",
		inverse: func(w *writer, x string) string { return w.phi(x) },
		mean:    func(w *writer) string { return w.phi("bglm_a") },
		at:      func(w *writer, m, v string) string { return m + " / sqrt(" + w.number(1) + " + " + v + ")" },
	},
	"cloglog": {
		pmml: "cloglog",
		inverse: func(w *writer, x string) string {
			return w.number(1) + " - exp(-" + w.least + "(" + w.exp(x) + ", " + w.number(700) + "))"
		},
	},
	"logit": {
		pmml: "logit",
		inverse: func(w *writer, x string) string {
			return w.number(1) + " / (" + w.number(1) + " + " + w.exp("-("+x+")") + ")"
		},
		mackay: func(w *writer) string {
			return w.inverse("bglm_m / sqrt(" + w.number(1) + " + " + w.number(math.Pi/8) + " * bglm_v)")
		},
	},
}

// likelihoodOf is the likelihood and the link of a fit of one response. Errors: those of
// f.Likelihood; an argument.Error for a link that is not in the table.
func likelihoodOf(f *kernels.Fit) (lik.Likelihood, link, error) {
	l, err := f.Likelihood()
	if err != nil {
		return nil, link{}, err
	}
	to, err := linkOf(l.Link())
	return l, to, err
}

func linkOf(name string) (link, error) {
	if l, ok := links[name]; ok {
		return l, nil
	}
	return link{}, &argument.Error{Name: "link", Found: "'" + name + "'", Why: "is not written for other systems",
		Allowed: strings.Join(slices.Sorted(maps.Keys(links)), ", ")}
}

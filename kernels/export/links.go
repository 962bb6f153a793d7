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

// link is how the languages that scores are written in say a link, which is theirs to name.
type link struct {
	pmml    string                              // its normalizationMethod
	inverse func(w *writer, x string) string    // of a column
	mean    func(w *writer) string              // the expected response, of bglm_m, bglm_v, bglm_s and bglm_a; nil: a sum over Nodes
	mackay  func(w *writer) string              // MacKay's approximation of it; nil: mean
	at      func(w *writer, m, v string) string // bglm_a, nil: m
}

// links are those that can be written. Another likelihood of these needs nothing here; a
// link that is not here is refused.
var links = map[string]link{
	"identity": {
		pmml:    "none",
		inverse: func(_ *writer, x string) string { return x },
		mean:    func(*writer) string { return "bglm_m" },
	},
	"log": {
		pmml:    "exp",
		inverse: func(w *writer, x string) string { return w.exp(x) },
		mean: func(w *writer) string { // as predict.Expected holds it
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

// likelihoodOf is that of a fit of one response, and its link. Errors: those of f.Likelihood; a
// link that is not in the table, an argument.Error.
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

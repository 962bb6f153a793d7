package lik

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/argument"
)

// Info describes one family for documentation and for messages.
type Info struct {
	Family      string
	Links       []string // the first is the default
	Description string
	Parameters  []string // options the family reads besides quadrature
	Response    string   // what y may be
}

// family ties a family's description to the constructors of its links.
type family struct {
	Info
	make links
}

type links map[string]func(Params) (Likelihood, error)

// families is the explicit list, each family in a file of its own; never written after
// start-up.
var families = []family{
	bernoulliFamily,
	binomialFamily,
	gaussianFamily,
	poissonFamily,
	negbinomialFamily,
	gammaFamily,
	studenttFamily,
}

// Families lists the families in registry order, as fresh copies.
func Families() []Info {
	out := make([]Info, len(families))
	for i, f := range families {
		out[i] = f.Info
		out[i].Links = append([]string(nil), f.Links...)
		out[i].Parameters = append([]string(nil), f.Parameters...)
	}
	return out
}

// With lists the families that have a parameter, "dispersion" or "shape".
func With(parameter string) []string {
	var out []string
	for _, f := range families {
		if slices.Contains(f.Parameters, parameter) {
			out = append(out, f.Family)
		}
	}
	return out
}

// Those names the likelihoods with a trait, by link with their families, as in
// "bernoulli or binomial with link logit".
func Those(has func(Traits) bool) string {
	var links []string
	of := map[string][]string{}
	for _, f := range families {
		for _, link := range f.Links {
			l, err := f.make[link](Params{Dispersion: 1})
			if err != nil || !has(l.Traits()) {
				continue
			}
			if len(of[link]) == 0 {
				links = append(links, link)
			}
			of[link] = append(of[link], f.Family)
		}
	}
	for i, link := range links {
		links[i] = strings.Join(of[link], " or ") + " with link " + link
	}
	return strings.Join(links, "; ")
}

// OfTrials returns the family of successes among trials.
func OfTrials() string {
	for _, f := range families {
		if l, err := f.make[f.Links[0]](Params{Dispersion: 1}); err == nil && l.Traits().Trials {
			return f.Family
		}
	}
	return ""
}

// New returns the likelihood of a family and link with its parameters bound. Names are
// case-insensitive. An empty family is the first whose default link is link (log is
// poisson), otherwise the first that has it; an empty link is the family's first, and if
// both are empty they are bernoulli and logit.
//
// Errors name the option (family, link, dispersion or quadrature), what was found and what
// is allowed, with the nearest name if the spelling looks like a slip: for names it is an
// argument.Error.
func New(family, link string, p Params) (Likelihood, error) {
	if p.Dispersion == 0 {
		p.Dispersion = 1
	}
	return find(family, link, p)
}

// Remake returns l with exactly the parameters p, for computed ones: a dispersion that underflows
// to 0 is out of range, not the default.
func Remake(l Likelihood, p Params) (Likelihood, error) { return find(l.Family(), l.Link(), p) }

func find(family, link string, p Params) (Likelihood, error) {
	family, link = strings.ToLower(strings.TrimSpace(family)), strings.ToLower(strings.TrimSpace(link))
	if family == "" && link == "" {
		family = families[0].Family
	}
	if family == "" {
		for _, f := range families {
			if f.Links[0] == link {
				return f.make[link](p)
			}
		}
		var links []string
		for _, f := range families {
			if f.make[link] != nil {
				return f.make[link](p)
			}
			for _, name := range f.Links {
				if !slices.Contains(links, name) {
					links = append(links, name)
				}
			}
		}
		return nil, argument.Word("link", link, links)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.Family)
		if f.Family != family {
			continue
		}
		if link == "" {
			link = f.Links[0]
		}
		if f.make[link] == nil {
			err := argument.Word("link", link, f.Links)
			err.For = family
			return nil, err
		}
		return f.make[link](p)
	}
	err := argument.Word("family", family, names)
	for _, f := range families {
		if f.make[family] != nil {
			err.Why, err.Nearest = "it is a link, which the option link names", f.Family
			break
		}
	}
	return nil, err
}

// Lacks returns the error for a parameter, "dispersion" or "shape", that is to be learnt for a
// likelihood without it.
func Lacks(l Likelihood, parameter string) error {
	return &argument.Error{Name: parameter, Found: "'auto'", Why: l.Family() + " has none", Allowed: strings.Join(With(parameter), ", ")}
}

// checkWeight is common to every family's Check.
func checkWeight(o Obs) error {
	if !(o.Weight >= 0) || math.IsInf(o.Weight, 1) {
		return fmt.Errorf("weight = %v: weights are finite numbers >= 0", o.Weight)
	}
	return nil
}

func checkBinary(o Obs) error {
	if o.Y != 0 && o.Y != 1 {
		labels := ""
		switch o.Y {
		case -1:
			labels = "labels -1 and 1 become y > 0; "
		case 2:
			labels = "labels 1 and 2 become y - 1; "
		}
		return fmt.Errorf("y = %v: bernoulli takes 0 or 1; %sfor other numbers there is family 'gaussian', for counts 'poisson'", o.Y, labels)
	}
	return checkWeight(o)
}

// normalQuantiles returns the Gaussian quantiles of the central interval of the given level.
// A level outside (0, 1) gives NaN.
func normalQuantiles(m, v, level float64) (lower, upper float64) {
	if !(level > 0 && level < 1) {
		return math.NaN(), math.NaN()
	}
	half := centralZ(level) * math.Sqrt(v)
	return m - half, m + half
}

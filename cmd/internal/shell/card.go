package shell

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/bglm/bglm/kernels/lik"
)

// A FIT is a STRUCT with a belief for each feature, too long to read as text. Box mode shows a
// single one as a card, and those among other columns or rows as a line; the other modes show all
// of it.

// cardTerms is how many terms a card has.
const cardTerms = 10

// isFit reports whether values of the type are FITs, including those of bglm_softmax and bglm_gp.
func isFit(t duckdb.TypeInfo) bool {
	if t == nil {
		return false
	}
	d, ok := t.Details().(*duckdb.StructDetails)
	if !ok {
		return false
	}
	names := make([]string, len(d.Entries))
	for i, e := range d.Entries {
		names[i] = e.Name()
	}
	has := func(all ...string) bool {
		return !slices.ContainsFunc(all, func(name string) bool { return !slices.Contains(names, name) })
	}
	return has("family", "link", "n", "log_evidence", "status") && (has("method", "beliefs", "covariance") || has("kernel", "alpha"))
}

// fitValue reads fields of a FIT.
type fitValue map[string]any

func (f fitValue) text(name string) string {
	s, _ := f[name].(string)
	return s
}

func (f fitValue) number(name string) (float64, bool) {
	v, ok := f[name].(float64)
	return v, ok && !math.IsNaN(v)
}

func (f fitValue) beliefs() []any {
	l, _ := f["beliefs"].([]any)
	return l
}

func (f fitValue) covariance() string {
	c, _ := f["covariance"].(map[string]any)
	return fitValue(c).text("kind")
}

// head names the model: laplace, bernoulli (logit), full covariance.
func (f fitValue) head() string {
	method := cmp.Or(f.text("method"), "gp")
	out := method
	if family := f.text("family"); family != "" && family != method {
		out += ", " + family
	}
	if link := f.text("link"); link != "" {
		out += " (" + link + ")"
	}
	if kernel := f.text("kernel"); kernel != "" {
		out += ", kernel " + kernel
	} else if kind := f.covariance(); kind != "" {
		out += ", " + kind + " covariance"
	}
	return out
}

// size counts rows and weights.
func (f fitValue) size() string {
	n, _ := f["n"].(int64)
	out := plural64(n, "row")
	if skipped, _ := f["n_skipped"].(int64); skipped > 0 {
		out += ", " + plural64(skipped, "row") + " skipped"
	}
	if f["beliefs"] != nil {
		out += ", " + plural64(int64(len(f.beliefs())), "weight")
	}
	return out
}

// line is a FIT in a cell.
func (f fitValue) line() string { return f.head() + ": " + f.size() + ", " + f.text("status") }

// card is a single FIT.
func (f fitValue) card() []string {
	out := []string{f.head(), f.size()}
	var learnt []string
	for _, name := range []string{"shape", "dispersion", "lengthscale", "signal_variance"} {
		if v, ok := f.number(name); ok && !(name == "dispersion" && v == 1) {
			learnt = append(learnt, fmt.Sprintf("%s %.4g", strings.ReplaceAll(name, "_", " "), v))
		}
	}
	if len(learnt) > 0 {
		out = append(out, strings.Join(append(learnt, f.residual()...), ", "))
	}
	if log, ok := f.number("log_evidence"); ok && !math.IsInf(log, 0) {
		line := "log evidence " + strconv.FormatFloat(log, 'f', 2, 64)
		if n, _ := f["n"].(int64); n > 0 {
			line += fmt.Sprintf(", %.4f a row", log/float64(n))
		}
		out = append(out, line)
	}
	if time, ok := f.number("time"); ok {
		out = append(out, fmt.Sprintf("at time %g", time))
	}
	status := strings.Split(f.text("status"), "; ")
	status[0] = "status: " + status[0]
	return append(append(out, status...), f.terms()...)
}

// residual is the learnt square root of the dispersion, with its standard deviation if known.
func (f fitValue) residual() []string {
	l, _ := f["learnt"].([]any)
	for _, v := range l {
		e, _ := v.(map[string]any)
		mean, ok := fitValue(e).number("mean")
		if !ok || fitValue(e).text("name") != "deviation" {
			continue
		}
		out := fmt.Sprintf("sd(residual) %.4g", mean)
		if l, err := lik.New(f.text("family"), f.text("link"), lik.Params{Dispersion: 1}); err != nil || !l.Traits().Homoscedastic {
			out = fmt.Sprintf("scale(residual) %.4g", mean)
		}
		if sd, ok := fitValue(e).number("sd"); ok {
			out += fmt.Sprintf(" ± %.3g", sd)
		}
		return []string{out}
	}
	return nil
}

type cardTerm struct {
	name     string
	mean, sd float64
}

// terms are the intercept and the weights with the largest means in standard deviations.
func (f fitValue) terms() []string {
	var all []cardTerm
	for _, v := range f.beliefs() {
		b, _ := v.(map[string]any)
		mean, ok := fitValue(b).number("mean")
		variance, known := fitValue(b).number("variance")
		if !ok || !known {
			continue
		}
		name := fitValue(b).text("feature")
		if class := fitValue(b).text("class"); class != "" {
			name = class + ": " + name
		}
		all = append(all, cardTerm{Visible(name), mean, math.Sqrt(variance)})
	}
	if len(all) == 0 {
		return nil
	}
	score := func(t cardTerm) float64 {
		switch {
		case t.mean == 0:
			return 0
		case t.name == "(Intercept)":
			return math.Inf(1)
		}
		return math.Abs(t.mean) / t.sd
	}
	slices.SortStableFunc(all, func(a, b cardTerm) int { return cmp.Compare(score(b), score(a)) })
	shown := all[:min(cardTerms, len(all))]
	width := len("term")
	for i := range shown {
		shown[i].name = cut(shown[i].name, 40)
		width = max(width, text.StringWidth(shown[i].name))
	}
	factorised := f.covariance() == "diagonal" && len(all) > 1
	pad := func(s string) string { return s + strings.Repeat(" ", width-text.StringWidth(s)) }
	head := "  " + pad("term") + "        mean"
	if !factorised {
		head += "        sd"
	}
	out := []string{"", head}
	for _, t := range shown {
		line := fmt.Sprintf("  %s  %10.4g", pad(t.name), t.mean)
		if !factorised {
			line += fmt.Sprintf("  %8.3g", t.sd)
		}
		out = append(out, line)
	}
	more := ""
	if n := len(all) - len(shown); n > 0 {
		more = "and " + plural64(int64(n), "weight") + " more: "
	}
	if f["kernel"] == nil {
		out = append(out, "  "+more+"SELECT unnest(bglm_summary(fit), recursive := true)")
	}
	return out
}

// plural64 is a count with thousands separators.
func plural64(n int64, unit string) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if n == 1 {
		return s + " " + unit
	}
	return s + " " + unit + "s"
}

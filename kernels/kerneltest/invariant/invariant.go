// Package invariant checks fits slowly and plainly: the referee of tests that put fits
// together by chance. It shares no code with what it referees: the matrix is built and
// its eigenvalues are found.
package invariant

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
)

var position = regexp.MustCompile(`^[1-9][0-9]{0,17}$`)

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Tolerance is relative, a few times that of kernels.Fit.Validate.
const Tolerance = 4e-6

// Less is the order of beliefs: the intercept, positions by number, names by bytes.
func Less(a, b string) bool {
	class := func(s string) int {
		switch {
		case s == "(Intercept)":
			return 0
		case position.MatchString(s):
			return 1
		}
		return 2
	}
	if class(a) != class(b) {
		return class(a) < class(b)
	}
	if class(a) == 1 {
		x, _ := strconv.ParseInt(a, 10, 64)
		y, _ := strconv.ParseInt(b, 10, 64)
		return x < y
	}
	return class(a) == 2 && a < b
}

// Check reports a broken invariant of a fit. Cost: O(p³).
func Check(f *kernels.Fit) error {
	if !knownLink(f.Family, f.Link) {
		return fmt.Errorf("family %q, link %q", f.Family, f.Link)
	}
	if !finite(f.Dispersion) || f.Dispersion <= 0 {
		return fmt.Errorf("dispersion %v", f.Dispersion)
	}
	shaped := slices.Contains(lik.With("shape"), f.Family)
	if math.IsNaN(f.Shape) == shaped && shaped || !math.IsNaN(f.Shape) && (!finite(f.Shape) || f.Shape <= 0) {
		return fmt.Errorf("shape %v", f.Shape)
	}
	if f.HashBits < 0 || f.HashBits > 30 {
		return fmt.Errorf("hash_bits %d", f.HashBits)
	}
	if !finite(f.Prior.Mean) || !finite(f.Prior.Variance) || !finite(f.Prior.InterceptVariance) || f.Prior.Variance < 0 || f.Prior.InterceptVariance < 0 {
		return fmt.Errorf("prior %v", f.Prior)
	}
	if math.IsInf(f.Time, 0) || math.IsInf(f.LogEvidence, 1) {
		return fmt.Errorf("time %v, log_evidence %v", f.Time, f.LogEvidence)
	}
	if f.N < 0 || f.Skipped < 0 || f.Iterations < 0 || f.N > 1<<53 || f.Skipped > 1<<53 || f.Iterations > math.MaxInt32 {
		return fmt.Errorf("n %d, n_skipped %d, iterations %d", f.N, f.Skipped, f.Iterations)
	}
	if !utf8.ValidString(f.Method) || !utf8.ValidString(f.Status) {
		return fmt.Errorf("text that is not UTF-8")
	}
	p := len(f.Beliefs)
	if (f.Family == "multinomial") != (len(f.Classes) > 0) && p > 0 {
		return fmt.Errorf("family %q with %d classes", f.Family, len(f.Classes))
	}
	block := p
	if c := len(f.Classes); c > 0 {
		if block = p / c; block*c != p {
			return fmt.Errorf("%d beliefs for %d classes", p, c)
		}
		for i, a := range f.Classes {
			for _, b := range f.Classes[:i] {
				if a == b {
					return fmt.Errorf("class %q twice", a)
				}
			}
		}
	}
	for j, b := range f.Beliefs {
		if !finite(b.Mean) || !finite(b.Variance) || b.Variance < 0 || !utf8.ValidString(b.Feature) {
			return fmt.Errorf("belief %v", b)
		}
		if j >= block && f.Beliefs[j-block].Feature != b.Feature {
			return fmt.Errorf("class blocks differ at %d", j)
		}
		if j > 0 && j < block && !Less(f.Beliefs[j-1].Feature, b.Feature) {
			return fmt.Errorf("%q after %q", b.Feature, f.Beliefs[j-1].Feature)
		}
	}
	return covariance(f)
}

// knownLink accepts names as kernels/lik does, without regard to case and spaces around.
func knownLink(family, link string) bool {
	family, link = strings.ToLower(strings.TrimSpace(family)), strings.ToLower(strings.TrimSpace(link))
	return family == "multinomial" && link == "softmax" || slices.ContainsFunc(lik.Families(), func(f lik.Info) bool {
		return f.Family == family && slices.Contains(f.Links, link)
	})
}

func covariance(f *kernels.Fit) error {
	p, c := len(f.Beliefs), f.Covariance
	for _, v := range c.Values {
		if !finite(v) {
			return fmt.Errorf("covariance value %v", v)
		}
	}
	if c.Rank < 0 || !c.Form.HasRank() && c.Rank != 0 {
		return fmt.Errorf("rank %d", c.Rank)
	}
	want := 0.0
	switch c.Form {
	case gauss.Full:
		want = float64(p) * float64(p+1) / 2
	case gauss.LowRank:
		want = float64(p) * (float64(c.Rank) + 1)
	case gauss.Arrowhead:
		d := float64(c.Rank)
		want = 2*d + d*(d+1)/2 + float64(p)*(d+3)
	}
	if float64(len(c.Values)) != want {
		return fmt.Errorf("%d values, want %v", len(c.Values), want)
	}
	if p == 0 || c.Form == gauss.Diagonal {
		return nil
	}
	sum := map[gauss.Form]func(kernels.Covariance, int, *mat.SymDense, []float64) error{gauss.Full: fullSum, gauss.Arrowhead: arrowheadSum, gauss.LowRank: lowRankSum}[c.Form]
	// The matrix scaled by all, what each variance is before anything is taken from it.
	all := make([]float64, p)
	sigma := mat.NewSymDense(p, nil)
	if err := sum(c, p, sigma, all); err != nil {
		return err
	}
	scaled := mat.NewSymDense(p, nil)
	for i := range p {
		if v := f.Beliefs[i].Variance; all[i] < 0 || !(math.Abs(sigma.At(i, i)-v) <= Tolerance*math.Max(all[i], v)+1e-300) {
			return fmt.Errorf("variance %v of belief %d, in the covariance %v of %v", v, i, sigma.At(i, i), all[i])
		}
		for j := range p {
			if all[i] > 1e-300 && all[j] > 1e-300 {
				scaled.SetSym(i, j, sigma.At(i, j)/math.Sqrt(all[i])/math.Sqrt(all[j]))
			}
		}
	}
	var e mat.EigenSym
	if !e.Factorize(scaled, false) {
		return fmt.Errorf("no eigenvalues")
	}
	if low := e.Values(nil)[0]; low < -Tolerance*float64(p) {
		return fmt.Errorf("eigenvalue %v", low)
	}
	return nil
}

func fullSum(c kernels.Covariance, p int, sigma *mat.SymDense, all []float64) error {
	at := func(i, k int) float64 {
		if k > i {
			return 0
		}
		return c.Values[i*(i+1)/2+k]
	}
	for i := range p {
		if at(i, i) < 0 {
			return fmt.Errorf("diagonal %v", at(i, i))
		}
		for j := range p {
			s := 0.0
			for k := range p {
				s += at(i, k) * at(j, k)
			}
			sigma.SetSym(i, j, s)
		}
		all[i] = sigma.At(i, i)
	}
	return nil
}

func arrowheadSum(c kernels.Covariance, p int, sigma *mat.SymDense, all []float64) error {
	d := c.Rank
	rows := mat.NewDense(p, max(d, 1), nil) // of what each belief is in the block's weights
	root := mat.NewDense(max(d, 1), max(d, 1), nil)
	for i := range d {
		if c.Values[2*d+i*(i+1)/2+i] < 0 {
			return fmt.Errorf("diagonal %d of the block's factor is negative", i)
		}
		for k := range i + 1 {
			root.Set(i, k, c.Values[2*d+i*(i+1)/2+k])
		}
	}
	own := make([]float64, p)
	for i := range p {
		r := c.Values[2*d+d*(d+1)/2+i*(d+3):][:d+3]
		what := int(r[0])
		if float64(what) != r[0] || what >= d || what < -1-d || r[2] < 0 {
			return fmt.Errorf("belief %d: what it is %v, q %v", i, r[0], r[2])
		}
		own[i] = r[2]
		for k := range d {
			rows.Set(i, k, r[3+k])
		}
		switch {
		case what >= 0:
			rows.Set(i, what, rows.At(i, what)+1)
		case what <= -2:
			rows.Set(i, -2-what, 1)
		}
	}
	var hl, all2 mat.Dense
	hl.Mul(rows, root)
	all2.Mul(&hl, hl.T())
	for i := range p {
		for j := range p {
			sigma.SetSym(i, j, all2.At(i, j))
		}
		sigma.SetSym(i, i, all2.At(i, i)+own[i])
		all[i] = sigma.At(i, i)
	}
	return nil
}

func lowRankSum(c kernels.Covariance, p int, sigma *mat.SymDense, all []float64) error {
	at := func(i, k int) float64 { return c.Values[i*(c.Rank+1)+k] }
	for i := range p {
		all[i] = at(i, 0)
		for j := range p {
			s := 0.0
			if i == j {
				s = all[i]
			}
			for k := range c.Rank {
				s -= at(i, k+1) * at(j, k+1)
			}
			sigma.SetSym(i, j, s)
		}
	}
	return nil
}

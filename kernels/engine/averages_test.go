package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// drawAverages draws n rows of a number and of levels, each level having so many rows, whose
// weights spread over a factor of hundreds about 30: responses are means of so many rows, or vary
// alike whatever the weight.
func drawAverages(seed uint64, n, level int, family string, means bool) *rows.Table {
	rnd := rand.New(rand.NewPCG(seed, 23))
	var u, y, w []float64
	var g []string
	effect := 0.0
	for i := range n {
		if i%level == 0 {
			effect = rnd.NormFloat64()
		}
		x, weight := rnd.NormFloat64(), math.Ceil(30*rnd.ExpFloat64())
		size := 1.0
		if means {
			size = weight
		}
		s, v := 0.5*x+0.3*effect, 0.0
		if family == "gamma" {
			k := 3 * size
			for range int(k) { // whole numbers of exponentials
				v += rnd.ExpFloat64()
			}
			v *= math.Exp(s) / k
		} else {
			v = s + rnd.NormFloat64()/math.Sqrt(size)
			if family == "gaussian log" {
				v = 5*math.Exp(s) + rnd.NormFloat64()/math.Sqrt(size)
			}
		}
		u, y, w, g = append(u, x), append(y, v), append(w, weight), append(g, fmt.Sprint("g", i/level))
	}
	return &rows.Table{X: rows.Fields(rows.Numbers("u", u), rows.Texts("g", g)), Y: rows.Numbers("y", y), Weight: rows.Numbers("w", w)}
}

// TestAverages fits responses that are means of as many rows as they weigh, which count as so many
// rows each, and others of the same weights that are not.
func TestAverages(t *testing.T) {
	kerneltest.Slow(t)
	const sentence = "rows of larger weight vary less"
	for _, c := range []struct {
		family string
		level  int
		least  int // of ten sets of means
	}{{"gaussian", 50, 10}, {"gaussian", 4, 10}, {"gamma", 50, 10}, {"gamma", 4, 10}, {"gaussian log", 50, 10}, {"studentt", 50, 10}} {
		said := map[bool]int{}
		for seed := range uint64(10) {
			for _, means := range []bool{true, false} {
				s := option.Defaults()
				s.Family, s.Link, _ = strings.Cut(c.family, " ")
				r, err := Fit(context.Background(), "auto", s, drawAverages(seed, 400, c.level, c.family, means))
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(r.Fit.Status, sentence) {
					said[means]++
				}
			}
		}
		t.Logf("%v", said)
		if said[true] < c.least || said[false] > 0 {
			t.Errorf("%s, %d rows a level: said of %d of 10 sets of means, and of %d of 10 others", c.family, c.level, said[true], said[false])
		}
	}
}

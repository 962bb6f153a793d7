package softmax

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
)

func separation(t *testing.T, m *kernels.Model, d data, classes []string) string {
	t.Helper()
	p := problem(t, m, d)
	return p.ClassSeparation(fit(t, m, d, classes))
}

// What separates classes is said, with the classes and the features.
func TestClassSeparation(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	const n = 150
	draw := func(row func(i int) ([]float64, int)) (d data) {
		for i := range n {
			x, y := row(i)
			d.x, d.y = append(d.x, x), append(d.y, float64(y))
		}
		return d
	}
	noise := func() float64 { return rng.NormFloat64() }
	level := func(k, of int, more ...float64) []float64 {
		x := make([]float64, of)
		x[k] = 1
		return append(x, more...)
	}
	for _, c := range []struct {
		name string
		d    data
		want string
	}{
		{"levels that are the classes", draw(func(i int) ([]float64, int) { return level(i%3, 3, noise()), i % 3 }), "the classes are separated by x000, x001, x002:"},
		{"one number in order of the classes", draw(func(i int) ([]float64, int) { return []float64{float64(i%3) - 1 + 0.5*rng.Float64(), noise()}, i % 3 }), "the classes are separated by x000:"},
		{"a plane", draw(func(i int) ([]float64, int) {
			u, v := noise(), noise()
			if u+v > 0.5 {
				return []float64{u, v, 0.1 * noise()}, 0
			}
			return []float64{u, v, 0.1 * noise()}, 1 + rng.IntN(2)
		}), `class "a" is separated from the others by x00`},
		{"a feature", draw(func(i int) ([]float64, int) {
			y := rng.IntN(3)
			return []float64{noise(), noise() + map[int]float64{2: 20}[y]}, y
		}), `class "c" is separated from the others by x001`},
		{"a level of one class", draw(func(i int) ([]float64, int) {
			k, y := rng.IntN(4), rng.IntN(3)
			if k == 2 {
				y = 1
			}
			return level(k, 4), y
		}), `rows with x002 are all of class "b":`},
		{"a level without a class", draw(func(i int) ([]float64, int) {
			k, y := rng.IntN(3), rng.IntN(3)
			if k == 2 {
				y = rng.IntN(2)
			}
			return level(k, 3), y
		}), `rows with x002 are never of class "c":`},
		{"noise", draw(func(i int) ([]float64, int) { return level(i%5, 5, noise()), rng.IntN(3) }), ""},
		{"few rows", func() data {
			d := draw(func(i int) ([]float64, int) { return level(i%3, 3), i % 3 })
			d.x, d.y = d.x[:9], d.y[:9]
			return d
		}(), ""},
	} {
		for _, intercept := range []bool{true, false} {
			m := model(kernels.Options{})
			m.NoIntercept, m.Prior.Variance = !intercept, 10
			got := separation(t, m, c.d, abc)
			if !intercept && (c.name == "one number in order of the classes" || c.name == "a plane" || c.name == "a feature") {
				continue // there is no threshold but 0
			}
			if (got == "") != (c.want == "") || !strings.HasPrefix(got, strings.TrimSuffix(c.want, ":")) || c.want != "" && !strings.HasSuffix(got, "says how large these weights are") {
				t.Errorf("%s, intercept %v: %q, want %q", c.name, intercept, got, c.want)
			}
		}
	}
	if m := model(kernels.Options{}); separation(t, m, data{}, abc) != "" || separation(t, m, data{x: [][]float64{{1}, {2}}, y: []float64{0, 0}}, []string{"one"}) != "" {
		t.Error("of no rows, or one class")
	}
}

// Labels that are drawn without a look at the features are not said to be separated, however many
// features there are: of these fits less than one in three hundred. Classes are of unequal size, and
// the features numbers, rare levels, or both.
func TestClassSeparationByChance(t *testing.T) {
	kerneltest.Slow(t)
	rng := rand.New(rand.NewPCG(2, 4))
	alarms, fits := 0, 0
	for _, c := range []struct{ n, p, k, levels int }{{12, 3, 3, 0}, {20, 10, 3, 0}, {30, 14, 2, 0}, {40, 15, 5, 0}, {40, 30, 3, 0}, {60, 2, 4, 12}, {100, 1, 3, 40}, {60, 25, 6, 6}} {
		for range 40 {
			var d data
			var names []string
			for a := range c.k {
				names = append(names, fmt.Sprint(a))
			}
			for range c.n {
				x := make([]float64, c.p+c.levels)
				for j := range c.p {
					x[j] = rng.NormFloat64()
				}
				if c.levels > 0 {
					x[c.p+rng.IntN(c.levels)] = 1
				}
				y := min(rng.IntN(c.k), rng.IntN(c.k))
				d.x, d.y = append(d.x, x), append(d.y, float64(y))
			}
			m := model(kernels.Options{})
			m.Prior.Variance = 100
			fits++
			if got := separation(t, m, d, names); got != "" {
				alarms++
				t.Logf("%+v: %s", c, got)
			}
		}
	}
	if t.Logf("%d alarms in %d fits", alarms, fits); alarms > 1 {
		t.Errorf("%d alarms in %d fits of labels at random", alarms, fits)
	}
}

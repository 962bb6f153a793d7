package mode

import (
	"fmt"
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// level is an evidence that says nothing, or of the sum of all variances that it is about 1.
type level struct {
	theta []float64
	sum   bool
}

func (l *level) Try(theta []float64) (float64, bool, error) {
	l.theta = append(l.theta[:0], theta...)
	return l.log(theta), true, nil
}

func (l *level) log(theta []float64) float64 {
	if !l.sum {
		return 0
	}
	s := 0.0
	for _, x := range theta {
		s += math.Exp(x)
	}
	return -2 * math.Log(s) * math.Log(s)
}

func (l *level) Keep() {}

func (l *level) Slope() (slope, scale []float64, err error) {
	const d = 1e-5
	for k := range l.theta {
		at := append([]float64{}, l.theta...)
		at[k] += d
		up := l.log(at)
		at[k] -= 2 * d
		slope, scale = append(slope, (up-l.log(at))/(2*d)), append(scale, 0)
	}
	return slope, scale, nil
}

// Under half-t priors with three degrees of freedom, of scale 1, that nothing is known beside,
// deviations have the mean 2√3/π and the mean square 3, of up to three parameters by a lattice and
// of up to eight by Scatter; the weights' variance is that. Of variances that hang together both
// ways agree.
func TestScatter(t *testing.T) {
	prior := Hyper{DF: 3, Scale: 1}
	for k := 1; k <= 8; k++ {
		for _, sum := range []bool{false, true} {
			start, lo, hi, of := make([]float64, k), make([]float64, k), make([]float64, k), make([]int, k)
			for i := range k {
				start[i], lo[i], hi[i], of[i] = -1, -46, 46, i
			}
			e := &level{sum: sum}
			peak, err := NewPeak(e, of, func(theta, slope []float64) (f float64) {
				for i, x := range theta {
					v, s := prior.Log(x)
					f, slope[i] = f+v, slope[i]+s
				}
				return f
			}, start, lo, hi, func() bool { return false })
			if err != nil || peak == nil {
				t.Fatal(peak, err)
			}
			// mean and mean square of the first deviation
			moments := func(visit func(func(theta []float64, log float64) error) (bool, error)) (out [2]float64, ok bool) {
				total := 0.0
				whole, err := visit(func(theta []float64, log float64) error {
					w, s := math.Exp(log), math.Exp(0.5*theta[0])
					total, out[0], out[1] = total+w, out[0]+w*s, out[1]+w*s*s
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return [2]float64{out[0] / total, out[1] / total}, whole
			}
			byDraws, ok := moments(func(use func([]float64, float64) error) (bool, error) { return peak.Scatter(Scattered, use) })
			if !ok {
				if !sum { // over a ridge that bends, draws may be too few, which is known
					t.Errorf("%d parameters: no draws", k)
				}
				continue
			}
			want, tol := [2]float64{2 * math.Sqrt(3) / math.Pi, 3}, [2]float64{0.03, 0.15}
			if sum {
				want, tol = byDraws, [2]float64{0.03, 0.05}
			} else {
				for i := range want {
					kerneltest.Close(t, fmt.Sprintf("%d parameters, draws, moment %d", k, i+1), byDraws[i], want[i], kerneltest.Tol{Rel: tol[i]})
				}
			}
			if k > 3 {
				continue
			}
			byGrid, ok := moments(func(use func([]float64, float64) error) (bool, error) { return peak.Grid(1<<20, use) })
			if !ok {
				t.Errorf("%d parameters: no grid", k)
			}
			for i := range want {
				kerneltest.Close(t, fmt.Sprintf("%d parameters, grid, moment %d, sum %v", k, i+1, sum), byGrid[i], want[i], kerneltest.Tol{Rel: tol[i]})
			}
		}
	}
}

// Sum takes draws where the lattice has too many points.
func TestSumOfDraws(t *testing.T) {
	of, at := []int{0, 1, 2, 3}, []float64{-1, -1, -1, -1}
	lo, hi := []float64{-46, -46, -46, -46}, []float64{46, 46, 46, 46}
	e := &level{}
	peak, err := NewPeak(e, of, func(theta, slope []float64) (f float64) {
		for i, x := range theta {
			v, s := Hyper{DF: 3, Scale: 1}.Log(x)
			f, slope[i] = f+v, slope[i]+s
		}
		return f
	}, at, lo, hi, func() bool { return false })
	if err != nil || peak == nil {
		t.Fatal(peak, err)
	}
	sum, err := peak.Sum(Points{Draws: 2000}, func(theta []float64) []float64 { return []float64{math.Exp(0.5 * theta[2])} }, func() (*gauss.Normal, error) {
		n := gauss.NewDiagonal([]float64{0}, []float64{math.Exp(e.theta[2])})
		return n.ToFull()
	}, nil)
	if err != nil || sum == nil {
		t.Fatal(sum, err)
	}
	kerneltest.Close(t, "deviation", sum.Mean[0], 2*math.Sqrt(3)/math.Pi, kerneltest.Tol{Rel: 0.03})
	kerneltest.Close(t, "variance of the weight", sum.Weights.Var[0], 3, kerneltest.Tol{Rel: 0.15})
}

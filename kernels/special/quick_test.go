package special

import (
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

func TestExpDown(t *testing.T) {
	for x := -599.0; x <= 0; x += 0.0137 {
		if !kerneltest.Close(t, "exp", ExpDown(x), math.Exp(x), kerneltest.Tol{Rel: 1e-15}) {
			return
		}
	}
	if ExpDown(-1e9) != 0 || ExpDown(math.Inf(-1)) != 0 || ExpDown(0) != 1 {
		t.Error("ends")
	}
}

func TestQuickLog(t *testing.T) {
	for x := 1e-300; x < 1e300; x *= 1.00731 {
		if !kerneltest.Close(t, "log", QuickLog(x), math.Log(x), kerneltest.Tol{Rel: 3e-16, Abs: 3e-16}) {
			return
		}
	}
	for _, x := range []float64{0, 5e-324, math.Inf(1), -1, math.NaN()} {
		kerneltest.Close(t, "log", QuickLog(x), math.Log(x), kerneltest.Tol{Rel: 1e-16})
	}
}

func TestQuickLog1p(t *testing.T) {
	for x := 1e-300; x < 1e20; x *= 1.00731 {
		tol := kerneltest.Tol{Rel: 5e-16} // of 2+x, the quotient and the product, half an ulp each
		if x >= 1./16 {
			tol = kerneltest.Tol{Rel: 3e-16, Abs: 4e-16}
		}
		if !kerneltest.Close(t, "log1p", QuickLog1p(x), math.Log1p(x), tol) {
			return
		}
	}
	for x := -1. / 16; x < -1e-300; x /= 1.00731 {
		if !kerneltest.Close(t, "log1p", QuickLog1p(x), math.Log1p(x), kerneltest.Tol{Rel: 5e-16}) {
			return
		}
	}
	if QuickLog1p(0) != 0 {
		t.Error("log1p(0) is not 0")
	}
}

func BenchmarkQuick(b *testing.B) {
	for _, c := range []struct {
		name string
		f    func(float64) float64
	}{{"ExpDown", ExpDown}, {"Exp", math.Exp}} {
		b.Run(c.name, func(b *testing.B) {
			s, x := 0.0, 0.0
			for b.Loop() {
				if x -= 0.37; x < -30 {
					x = 0
				}
				s += c.f(x)
			}
			sink = s
		})
	}
	for _, c := range []struct {
		name string
		f    func(float64) float64
	}{{"QuickLog", QuickLog}, {"Log", math.Log}, {"QuickLog1p", QuickLog1p}, {"Log1p", math.Log1p}} {
		b.Run(c.name, func(b *testing.B) {
			s, x := 0.0, 0.01
			for b.Loop() {
				if x += 0.37; x > 30 {
					x = 0.01
				}
				s += c.f(x)
			}
			sink = s
		})
	}
}

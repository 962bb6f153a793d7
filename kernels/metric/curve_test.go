package metric

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// The area under the curve by the trapezoid rule is the share of pairs in order; a threshold counts
// what a loop over the rows counts.
func TestCurve(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	area := AUC()
	steps := map[float64]Step{}
	var rows [][]float64
	for range 500 {
		p := float64(rnd.IntN(40)) / 40 // with ties
		row := []float64{0, p}
		if rnd.Float64() < p {
			row[0] = 1
		}
		rows = append(rows, row)
		area.Add(row, 1)
		s := steps[p]
		steps[p] = Step{s.Positive + row[0], s.Rows + 1}
	}
	var scores []float64
	for p := range steps {
		scores = append(scores, p)
	}
	slices.SortFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) })
	var list []Step
	for _, p := range scores {
		list = append(list, steps[p])
	}
	curve := Curve(list)
	got := 0.0
	for i := 1; i < len(curve); i++ {
		a, b := curve[i-1], curve[i]
		got += (b.FalsePositive - a.FalsePositive) * (a.TruePositive + b.TruePositive) / 2
	}
	kerneltest.Close(t, "area", got, area.Value(), tol)
	if first, last := curve[0], curve[len(curve)-1]; first != (CurvePoint{}) || last != (CurvePoint{1, 1, 1}) {
		t.Error(first, last)
	}
	if Curve([]Step{{3, 3}, {1, 1}}) != nil || Curve([]Step{{0, 3}}) != nil || Curve(nil) != nil {
		t.Error("a curve of one response")
	}

	var d Threshold
	const at, falsePositive, missed = 0.35, 1, 3
	cost := 0.0
	for _, r := range rows {
		d.Rows++
		d.Positive += r[0]
		switch {
		case r[1] >= at:
			d.Above++
			d.Found += r[0]
			cost += falsePositive * (1 - r[0])
		case r[0] == 1:
			cost += missed
		}
	}
	kerneltest.Close(t, "cost", d.Cost(falsePositive, missed), cost/500, tol)
	k := slices.IndexFunc(curve, func(c CurvePoint) bool { return c.Share == d.Above/d.Rows })
	if k < 0 {
		t.Fatal("no point of the curve is at the threshold")
	}
	kerneltest.Close(t, "recall", d.Recall(), curve[k].TruePositive, tol)
	kerneltest.Close(t, "lift", d.Lift(), curve[k].TruePositive/curve[k].Share, tol)
	kerneltest.Close(t, "precision", d.Precision(), d.Lift()*Prevalence(list), tol)
}

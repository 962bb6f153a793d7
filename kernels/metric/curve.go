package metric

// Step is rows whose predictions fall into one range, the highest first in a list of steps.
type Step struct{ Positive, Rows float64 }

// CurvePoint is what holds of all rows of the steps so far: the shares of negative and of positive
// rows among them, and theirs of all rows.
type CurvePoint struct{ FalsePositive, TruePositive, Share float64 }

func together(steps []Step) (all Step) {
	for _, s := range steps {
		all.Positive, all.Rows = all.Positive+s.Positive, all.Rows+s.Rows
	}
	return all
}

// Prevalence is the share of positive rows.
func Prevalence(steps []Step) float64 {
	all := together(steps)
	return all.Positive / all.Rows
}

// Curve is the ROC curve (FalsePositive, TruePositive) and the lift or gain curve (Share,
// TruePositive) of steps, from 0 on; nil where one of the responses does not occur.
func Curve(steps []Step) []CurvePoint {
	var now Step
	all := together(steps)
	if all.Positive == 0 || all.Positive == all.Rows {
		return nil
	}
	out := []CurvePoint{{}}
	for _, s := range steps {
		now.Positive, now.Rows = now.Positive+s.Positive, now.Rows+s.Rows
		out = append(out, CurvePoint{(now.Rows - now.Positive) / (all.Rows - all.Positive), now.Positive / all.Positive, now.Rows / all.Rows})
	}
	return out
}

// Threshold is what deciding for 1 from a probability on comes to: rows above it and those of them
// that are positive, of all rows and all positive ones.
type Threshold struct{ Above, Found, Rows, Positive float64 }

// Precision is the share of the rows above that are positive.
func (t Threshold) Precision() float64 { return t.Found / t.Above }

// Recall is the share of the positive rows that are above.
func (t Threshold) Recall() float64 { return t.Found / t.Positive }

// Lift is how many times more rows are positive above than among all.
func (t Threshold) Lift() float64 { return t.Precision() / (t.Positive / t.Rows) }

// Cost is that of a row, where a negative row above costs falsePositive and a positive one below
// missed.
func (t Threshold) Cost(falsePositive, missed float64) float64 {
	return (falsePositive*(t.Above-t.Found) + missed*(t.Positive-t.Found)) / t.Rows
}

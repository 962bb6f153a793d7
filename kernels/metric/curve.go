package metric

// Step has the rows whose predictions fall into one range; lists of steps begin with the highest.
type Step struct{ Positive, Rows float64 }

// CurvePoint summarises the rows of all steps so far: the proportions of the negative, of the
// positive and of all rows that are among them.
type CurvePoint struct{ FalsePositive, TruePositive, Share float64 }

func together(steps []Step) (all Step) {
	for _, s := range steps {
		all.Positive, all.Rows = all.Positive+s.Positive, all.Rows+s.Rows
	}
	return all
}

// Prevalence is the proportion of positive rows.
func Prevalence(steps []Step) float64 {
	all := together(steps)
	return all.Positive / all.Rows
}

// Curve is the ROC curve (FalsePositive, TruePositive) and the lift or gain curve (Share,
// TruePositive) of steps, starting at 0; nil if one of the responses does not occur.
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

// Threshold is the result of deciding for 1 above a probability: the rows above it and how many of
// them are positive, out of all rows and all positive ones.
type Threshold struct{ Above, Found, Rows, Positive float64 }

// Precision is the proportion of the rows above that are positive.
func (t Threshold) Precision() float64 { return t.Found / t.Above }

// Recall is the proportion of the positive rows that are above.
func (t Threshold) Recall() float64 { return t.Found / t.Positive }

// Lift is the proportion of positive rows above divided by that of all rows.
func (t Threshold) Lift() float64 { return t.Precision() / (t.Positive / t.Rows) }

// Cost is the mean cost per row, if a negative row above costs falsePositive and a positive one
// below missed.
func (t Threshold) Cost(falsePositive, missed float64) float64 {
	return (falsePositive*(t.Above-t.Found) + missed*(t.Positive-t.Found)) / t.Rows
}

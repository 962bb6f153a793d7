package metric

import "math"

// Confusion is the number of rows, or the sum of their weights, by their class and their most
// likely class.
type Confusion [][]float64

// Class returns the number of rows of a class, and for how many rows it was the most likely.
func (c Confusion) Class(k int) (rows, likeliest float64) {
	for i, row := range c {
		likeliest += row[k]
		if i == k {
			for _, n := range row {
				rows += n
			}
		}
	}
	return rows, likeliest
}

// Recall is the proportion of the rows of a class for which it is the most likely, 0 if it has none.
func (c Confusion) Recall(k int) float64 {
	rows, _ := c.Class(k)
	if rows == 0 {
		return 0
	}
	return c[k][k] / rows
}

// Precision is the proportion of the rows for which a class is the most likely that belong to it;
// NaN if there are none.
func (c Confusion) Precision(k int) float64 {
	_, likeliest := c.Class(k)
	return c[k][k] / likeliest
}

// Accuracy is the proportion of the rows whose class is the most likely, and base that of the most
// frequent class.
func (c Confusion) Accuracy() (accuracy, base float64) {
	var all, right, most float64
	for k := range c {
		rows, _ := c.Class(k)
		all, right, most = all+rows, right+c[k][k], max(most, rows)
	}
	return right / all, most / all
}

// BaseLoss is the log loss of predicting the class frequencies, their entropy.
func (c Confusion) BaseLoss() (loss float64) {
	var all float64
	rows := make([]float64, len(c))
	for k := range c {
		rows[k], _ = c.Class(k)
		all += rows[k]
	}
	for _, n := range rows {
		if n > 0 {
			loss -= n / all * math.Log(n/all)
		}
	}
	return loss
}

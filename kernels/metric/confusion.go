package metric

import "math"

// Confusion counts rows by their class and the class that was the likeliest for them.
type Confusion [][]int64

// Class is the number of rows of a class, and for how many rows it was the likeliest.
func (c Confusion) Class(k int) (rows, likeliest int64) {
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

// Recall is the share of the rows of a class for which it is the likeliest, 0 for none.
func (c Confusion) Recall(k int) float64 {
	rows, _ := c.Class(k)
	if rows == 0 {
		return 0
	}
	return float64(c[k][k]) / float64(rows)
}

// Precision is the share of the rows for which a class is the likeliest that are of it; NaN for
// none.
func (c Confusion) Precision(k int) float64 {
	_, likeliest := c.Class(k)
	return float64(c[k][k]) / float64(likeliest)
}

// Accuracy is the share of the rows whose class is the likeliest, and base that of the most frequent
// class.
func (c Confusion) Accuracy() (accuracy, base float64) {
	var all, right, most int64
	for k := range c {
		rows, _ := c.Class(k)
		all, right, most = all+rows, right+c[k][k], max(most, rows)
	}
	return float64(right) / float64(all), float64(most) / float64(all)
}

// BaseLoss is the log loss of the shares of the classes, their entropy.
func (c Confusion) BaseLoss() (loss float64) {
	var all float64
	rows := make([]float64, len(c))
	for k := range c {
		n, _ := c.Class(k)
		rows[k] = float64(n)
		all += rows[k]
	}
	for _, n := range rows {
		if n > 0 {
			loss -= n / all * math.Log(n/all)
		}
	}
	return loss
}

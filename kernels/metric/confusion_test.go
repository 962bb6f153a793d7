package metric

import (
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// Rows counted by hand; the base loss is that of the rows one by one.
func TestConfusion(t *testing.T) {
	c := Confusion{{5, 1, 0}, {2, 2, 0}, {0, 0, 0}}
	if rows, likeliest := c.Class(0); rows != 6 || likeliest != 7 {
		t.Error(rows, likeliest)
	}
	kerneltest.Close(t, "recall", c.Recall(0), 5./6, tol)
	kerneltest.Close(t, "precision", c.Precision(1), 2./3, tol)
	if c.Recall(2) != 0 || !math.IsNaN(c.Precision(2)) {
		t.Error("a class without rows", c.Recall(2), c.Precision(2))
	}
	accuracy, base := c.Accuracy()
	kerneltest.Close(t, "accuracy", accuracy, 0.7, tol)
	kerneltest.Close(t, "base accuracy", base, 0.6, tol)
	loss := 0.0
	for range 6 {
		loss -= math.Log(0.6) / 10
	}
	for range 4 {
		loss -= math.Log(0.4) / 10
	}
	kerneltest.Close(t, "base loss", c.BaseLoss(), loss, tol)
}
